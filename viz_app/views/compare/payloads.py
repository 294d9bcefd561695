"""The payloads of the page Compare: the grid of distances, two maps with their difference, both answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models import CheckpointError, InputError
from models.analysis.checks import Check, check_site
from models.analysis.comparison import TOKENS, WORDS, Comparison, KindPair, compare, row_distances
from models.trace import AttentionSite, Trace
from viz_app import checkpoints, words
from viz_app.drawing.labels import Label, axes_labels, quoted, writes
from viz_app.drawing.notes import answer_line, check_rows
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import head_name
from viz_app.drawing.stamp import facts, saving
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.session.live import Pictures
from viz_app.session.pinned import Pinned
from viz_app.views.compare import state, text
from viz_app.views.compare.state import Head

MOST_TOKENS = 256  # of a text whose heads are compared
MOST_WEIGHTS = 12_000_000  # of all heads of a run
MOST_WRITTEN = 40  # tokens that a model generates to continue a text
SCALES = (0.1, 0.25, 0.5, 1.0)  # of the difference
CLOSE = 1e-5  # bits between two routes to one distance


@dataclass(frozen=True)
class Choices:
    """The pinned run (None: this run itself), the head in focus, and the head compared with it.

    Without a pinned run the focus is the head that all others are compared with.
    """

    pinned: Pinned | None
    focus: Focus
    other: Head | None


@dataclass(frozen=True)
class Compared:
    """Two runs, and the pair of heads that is looked at."""

    first: CurrentRun
    second: CurrentRun
    found: Comparison
    pair: KindPair
    grids: dict[str, Tensor]  # (layer, head) distances by kind
    chosen: tuple[int, int]  # layer and head of the first run
    reference: tuple[int, int] | None  # of the second; None: the same head
    is_reread: bool

    @property
    def site(self) -> AttentionSite:
        return self.pair.first[self.chosen[0]]

    @property
    def opposite(self) -> tuple[int, int]:
        """Layer and head in the second run."""
        return self.reference or self.chosen

    @property
    def is_one_run(self) -> bool:
        return self.first is self.second

    @property
    def maps(self) -> tuple[Tensor, Tensor]:
        return self.pair.maps(0, *self.chosen), self.pair.maps(1, *self.opposite)

    @property
    def distance(self) -> float:
        return float(self.grids[self.pair.kind][self.chosen])


def payloads(run: CurrentRun, choices: Choices) -> Pictures:
    """Return the payloads of all components; of what cannot be compared only a note that says why."""
    try:
        what = compared(run, choices)
    except (InputError, CheckpointError) as error:
        return _unable(checkpoints.error_message(error))
    except ValueError as error:
        return _unable(str(error))
    return {
        "distances": distances(what),
        "difference": difference(what),
        "checks": check_rows(_checks(what)),
    }


def _unable(message: str) -> Pictures:
    """Return what is shown of runs that cannot be compared; pictures of an earlier text stay."""
    return {"distances": {"why": f"{message[:1].upper()}{message[1:].rstrip('.')}.", "kinds": []}}


def compared(run: CurrentRun, choices: Choices) -> Compared:
    """Return the comparison of this run with the pinned one, or with itself.

    Raises:
        InputError, CheckpointError: the pinned run cannot be made.
        ValueError: the runs cannot be compared.
    """
    second = run if choices.pinned is None else choices.pinned.beside(run)
    for one in (run, second):
        _check_size(one.trace)
    trace, is_reread = _read_alike(run, second)
    found = compare(run.trace, trace)
    if choices.pinned is None:
        return _of_one_run(run, found, choices)
    return _of_two(run, second, found, choices, is_reread)


def _check_size(trace: Trace) -> None:
    n = max(len(row.ids) for row in trace.streams.values())
    n_weights = sum(site.n_heads * site.n_query * site.n_key for site in trace.attention.values())
    if n > MOST_TOKENS or n_weights > MOST_WEIGHTS:
        fits = min(MOST_TOKENS, int(n * (MOST_WEIGHTS / max(1, n_weights)) ** 0.5))
        raise ValueError(text.TOO_LONG.format(n, fits))


def _read_alike(first: CurrentRun, second: CurrentRun) -> tuple[Trace, bool]:
    """Return the second run on the first one's answer, where both answer one text each in its own way.

    The flag says that it was made to read that answer.
    """
    ours, theirs = first.scope.model, second.scope.model
    if not (ours.translates and theirs.translates) or second.trace.teacher_forced:
        return second.trace, False
    sources = [run.trace.streams[run.scope.model.fields[0].stream] for run in (first, second)]
    answers = [run.trace.streams[run.scope.model.writes] for run in (first, second)]
    if sources[0].text != sources[1].text or answers[0].tokens == answers[1].tokens:
        return second.trace, False
    try:
        return cache.reread(second, (sources[0].text, answers[0].text)), True
    except InputError:
        return second.trace, False


def _of_one_run(run: CurrentRun, found: Comparison, choices: Choices) -> Compared:
    """Compare every head of the focus's kind with the head in focus."""
    focus = choices.focus.within(run.trace)
    pair, layer = found.of(focus.site) or (found.kinds[0], 0)
    reference = layer, min(focus.head, pair.first[layer].n_heads - 1)
    grid = pair.to_head(*reference)
    other = state.within(run.trace, choices.other)
    place = found.of(other[0]) if other else None
    if other and place and place[0] is pair:
        chosen = place[1], other[1]
    else:
        chosen = _nearest(grid, reference) or reference
    return Compared(run, run, found, pair, {pair.kind: grid}, chosen, reference, False)


def _nearest(grid: Tensor, reference: tuple[int, int]) -> tuple[int, int] | None:
    """Return the nearest other head to a head of the same grid; None if there is none."""
    if grid.numel() == 1:
        return None
    others = grid.clone()
    others[reference] = torch.inf
    layer, head = divmod(int(others.argmin()), grid.shape[1])
    return layer, head


def _of_two(
    run: CurrentRun, second: CurrentRun, found: Comparison, choices: Choices, is_reread: bool
) -> Compared:
    """Compare heads of the same layer and number, or all of a kind with one head of the second run."""
    reference = None
    if other := state.within(found.second, choices.other):
        for pair in found.kinds:
            names = [site.name for site in pair.second]
            if other[0] in names:
                reference = pair, (names.index(other[0]), other[1])
    if reference:
        pair, at = reference
        grids = {pair.kind: pair.to_head(*at)}
    else:
        grids, at = {pair.kind: pair.distances for pair in found.kinds}, None
    chosen = None
    if (place := found.of(choices.focus.site)) and place[0].kind in grids:
        pair, layer = place
        if choices.focus.head < grids[pair.kind].shape[1]:
            chosen = layer, choices.focus.head
    if chosen is None:
        pair = max(
            (one for one in found.kinds if one.kind in grids),
            key=lambda one: float(grids[one.kind].max()),
        )
        layer, head = divmod(int(grids[pair.kind].argmax()), grids[pair.kind].shape[1])
        chosen = layer, head
    return Compared(run, second, found, pair, grids, chosen, at, is_reread)


def distances(what: Compared) -> dict[str, Any]:
    """Return the payload of the grid of all heads."""
    kinds = []
    for pair in what.found.kinds:
        if (grid := what.grids.get(pair.kind)) is None:
            continue
        sites = pair.first[: len(grid)]
        kinds.append(
            {
                "title": words.kind_title(pair.first[0]),
                "note": text.partial(pair) if what.reference is None else "",
                "sites": [site.name for site in sites],
                "layers": [site.layer + 1 for site in sites],
                "heads": grid.shape[1],
                "values": grid.tolist(),
            }
        )
    ours = {site.kind: site for site in what.found.first.attention.values()}
    reasons = {words.kind_title(ours[kind]): why for kind, why in what.found.reasons.items()}
    return {
        "why": "",
        "title": _title(what),
        "sentence": _said(what),
        "legend": text.LEGEND,
        "unit": "bits",
        "kinds": kinds,
        "reasons": [f"{title}: {why}." for title, why in reasons.items()],
        "chosen": {"site": what.site.name, "head": what.chosen[1]},
        "reference": _reference(what),
    }


def _reference(what: Compared) -> dict[str, Any] | None:
    """Return the head of this run that all are compared with; None if it is another run's, or none."""
    if not what.is_one_run or what.reference is None:
        return None
    layer, head = what.reference
    return {"site": what.pair.first[layer].name, "head": head}


def _title(what: Compared) -> str:
    if what.reference is None:
        return "How far each head is from the same head of the pinned run"
    other = text.place(what.pair.second[what.reference[0]], what.reference[1])
    return f"How far each head is from {other}{'' if what.is_one_run else ' of the pinned run'}"


def _said(what: Compared) -> str:
    if what.reference is None:
        best = max(what.found.kinds, key=lambda pair: float(pair.distances.max()))
        layer, head = divmod(int(best.distances.argmax()), best.n_heads)
        n = sum(grid.numel() for grid in what.grids.values())
        place = text.place(best.first[layer], head)
        return text.furthest(place, float(best.distances[layer, head]), n)
    grid, reference = what.grids[what.pair.kind], what.reference
    name = text.place(what.pair.second[reference[0]], reference[1])
    if what.is_one_run:
        at = _nearest(grid, reference)
    else:
        layer, head = divmod(int(grid.argmin()), grid.shape[1])
        at, name = (layer, head), f"{name} of the pinned run"
    place = "" if at is None else text.place(what.pair.first[at[0]], at[1])
    return text.nearest(name, place, 0.0 if at is None else float(grid[at]))


def difference(what: Compared) -> bytes:
    """Return the payload of two maps and their signed difference, with both answers."""
    first, second = (one.numpy() for one in what.maps)
    queries, keys = _labels(what)
    signed = first - second
    titles = _names(what)
    query_axis, key_axis = words.axes(
        what.site, what.first.terms, writes(what.first.trace, what.site)
    )
    header = {
        "title": f"{_heading(what)}: {text.bits(what.distance)} apart",
        "site": what.site.name,
        "head": what.chosen[1],
        "distance": what.distance,
        "names": titles,
        "queries": [label.as_json() for label in queries],
        "keys": [label.as_json() for label in keys],
        "queryAxis": query_axis,
        "keyAxis": key_axis,
        "scale": _scale(what),
        "how": _how(what),
        "most": _most(what, titles, signed, queries, keys),
        **_answers(what),
        **saving(
            head_name(what.first.trace, what.site, what.chosen[1], "compared"),
            facts(what.first.trace),
        ),
    }
    blocked = [
        (~what.pair.allowed(side, *at)).numpy().astype(np.uint8)
        for side, at in enumerate((what.chosen, what.opposite))
    ]
    return pack(
        header,
        first=first.astype(np.float32),
        second=second.astype(np.float32),
        difference=signed.astype(np.float32),
        blockedFirst=blocked[0],
        blockedSecond=blocked[1],
    )


def _names(what: Compared) -> list[str]:
    """Return what the two maps are called."""
    ours = text.place(what.site, what.chosen[1])
    theirs = text.place(what.pair.second[what.opposite[0]], what.opposite[1])
    if what.is_one_run:
        return [ours, theirs]
    if ours == theirs:
        return [text.FIRST, text.SECOND]
    return [f"{text.FIRST}: {ours}", f"{text.SECOND}: {theirs}"]


def _heading(what: Compared) -> str:
    """Return the name of both heads."""
    ours = text.place(what.site, what.chosen[1])
    theirs = text.place(what.pair.second[what.opposite[0]], what.opposite[1])
    return ours if ours == theirs else f"{ours} and {theirs}"


def _most(
    what: Compared,
    titles: Sequence[str],
    signed: np.ndarray,
    queries: Sequence[Label],
    keys: Sequence[Label],
) -> str:
    """Return the sentence on the cell that differs most."""
    row, column = divmod(int(np.abs(signed).argmax()), signed.shape[1])
    names = titles if what.is_one_run else ["this run", "the pinned run"]
    return text.most(
        names[0], quoted(queries[row]), quoted(keys[column]), float(signed[row, column]), names[1]
    )


def _scale(what: Compared) -> float:
    """Return the end of the difference's scale, which all heads of the page share."""
    largest = 0.0
    if what.reference is None:
        for pair in what.found.kinds:
            for layer in range(pair.n_layers):
                both = (pair.maps(side, layer)[: pair.n_heads] for side in (0, 1))
                first, second = both
                largest = max(largest, float((first - second).abs().max()))
    else:
        other = what.pair.maps(1, *what.reference)
        for layer in range(len(what.pair.first)):
            largest = max(largest, float((what.pair.maps(0, layer) - other).abs().max()))
    return next(scale for scale in SCALES if largest <= scale or scale == SCALES[-1])


def _labels(what: Compared) -> tuple[list[Label], list[Label]]:
    """Return the labels of what is compared along both axes."""
    pair, first, second = what.pair, what.found.first, what.found.second
    ours, theirs = axes_labels(first, what.site), axes_labels(second, pair.second[what.opposite[0]])
    rows = first.axes(what.site)
    shown = []
    for axis, mine, other, row in zip((pair.queries, pair.keys), ours, theirs, rows, strict=True):
        if axis.how == WORDS:
            shown.append([Label(row.text[slice(*span)].strip()) for span in axis.spans])
        elif axis.how == TOKENS:
            shown.append(mine)
        else:
            shown.append([_either(a, b) for a, b in zip(mine, other, strict=True)])
    queries, keys = shown
    if pair.keys.how == WORDS:
        keys = [*keys, Label(text.REST, text.REST_NOTE, special=True)]
    return queries, keys


def _either(first: Label, second: Label) -> Label:
    """Return the label of a position with a token of each run."""
    if first.text == second.text:
        return first
    return Label(
        f"{first.text} | {second.text}", f"{first.text} here, {second.text} in the pinned run"
    )


def _answers(what: Compared) -> dict[str, Any]:
    """Return both answers and where they part; of a run beside itself the one."""
    if what.is_one_run:
        only = {"whose": text.FIRST, "words": _answer(what.first), "from": -1}
        return {"answers": [only], "verdict": ""}
    both = [_answer(run) for run in (what.first, what.second)]
    if what.first.scope.task != what.second.scope.task:
        parts, verdict = -1, text.OTHER_TASK
    else:
        parts, verdict = text.parting(*both), text.verdict(*both)
    whose = zip((text.FIRST, text.SECOND), both, strict=True)
    return {
        "answers": [{"whose": name, "words": some, "from": parts} for name, some in whose],
        "verdict": verdict,
    }


def _answer(run: CurrentRun) -> list[str]:
    """Return the words of what the model answers under the run's changes."""
    if not run.scope.model.can_write:
        return answer_line(run.trace)[1].split(" ")
    most = None if run.scope.model.translates else MOST_WRITTEN
    answer = (cache.unmasked_run(run.scope, run.trace, most).output or "").strip()
    return (answer or text.NOTHING).split(" ")


def _how(what: Compared) -> str:
    """Say how the rows are compared."""
    ways = dict.fromkeys(pair.how for pair in what.found.kinds if pair.kind in what.grids)
    said = [text.HOW[way] for way in ways]
    return " ".join([*said, text.REREAD] if what.is_reread else said)


def _checks(what: Compared) -> list[Check]:
    """Check the distance by a second route, against itself and turned round."""
    first, second = what.maps
    itself = row_distances(first, first).nan_to_num(0.0)
    turned = float(row_distances(second, first).nanmean().nan_to_num(0.0))
    by_kl = _by_kl(first.double().numpy(), second.double().numpy())
    return [
        Check(
            "against itself: 0",
            float(itself.max()),
            0.0,
            "The head beside itself, its furthest row, in bits",
        ),
        Check(
            "swapped: the same distance",
            abs(turned - what.distance),
            CLOSE,
            "The distance with the two sides exchanged, less the distance shown, in bits",
        ),
        Check(
            "the distance by another formula",
            abs(by_kl - what.distance),
            CLOSE,
            "Half of KL(p‖m) + half of KL(q‖m) with m = (p + q)/2, less the distance shown, in bits",
        ),
        *check_site(what.site),
    ]


def _by_kl(first: np.ndarray, second: np.ndarray) -> float:
    """Return the mean divergence of the rows from two Kullback–Leibler divergences, in bits."""
    half = (first + second) / 2
    rows = np.zeros(len(first))
    for one in (first, second):
        ratio = np.divide(one, half, out=np.ones_like(one), where=one > 0)
        rows += (one * np.log2(ratio)).sum(-1) / 2
    read = (first.sum(-1) > 0) | (second.sum(-1) > 0)
    return float(rows[read].mean()) if read.any() else 0.0


def table(run: CurrentRun, choices: Choices) -> list[list[object]]:
    """Return the rows of the table of all distances, with its head."""
    rows: list[list[object]] = [["attention", "layer", "head", "distance in bits"]]
    what = compared(run, choices)
    for pair in what.found.kinds:
        for layer, values in enumerate(what.grids.get(pair.kind, ())):
            site = pair.first[layer]
            title = words.kind_title(site)
            rows += [[title, site.layer + 1, head + 1, float(v)] for head, v in enumerate(values)]
    return rows
