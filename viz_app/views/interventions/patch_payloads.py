"""The payloads of the section Patch: what each part of one run does in the other, both ways, and the answers."""

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from models.analysis.checks import Check, check_site
from models.analysis.effects import HeadEffects, effects_of
from models.analysis.metrics import Divergence, logits_of
from models.trace import Trace
from models.trace.edits import Edit, Edits, Patch, Where
from viz_app import words
from viz_app.drawing.labels import labels
from viz_app.drawing.notes import check_rows, small_print
from viz_app.drawing.sites import by_kind
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.interventions import patch_text as say
from viz_app.views.interventions import text
from viz_app.views.interventions.patch_runs import (
    ENOUGH,
    NEEDED,
    SIDES,
    Grid,
    Two,
    grids,
    level,
    moved,
    two_runs,
)
from viz_app.views.interventions.payloads import Asked, answer_words, outcome, strongest

MOST_WORK = 20_000  # parts tried one way · tokens of the longest stream
MOVED = 1e-4  # of a cell's length; less is rounding
LEAST_GAP = 0.1  # of what is measured; shares of less say nothing
EXACT = 1e-4
NOTE = "patch-note"


@dataclass(frozen=True)
class Choices:
    """The choices of the section: the second text, what is tried first in its place if it cannot be used, and the views."""

    second: tuple[str, ...]
    instead: tuple[tuple[str, ...], ...]
    position: int | None
    stream: str
    part: str
    unit: str
    side: str
    other_edits: Edits = ()


@dataclass(frozen=True)
class Effects:
    """What each part does on one side; None of a kind that is not there or not tried."""

    cells: torch.Tensor | None  # (layer, position)
    heads: HeadEffects | None


@dataclass(frozen=True)
class Shown:
    """What is drawn: both runs, the grid, and the effects by side."""

    two: Two
    grid: Grid | None
    effects: dict[str, Effects]
    is_share: bool

    def shown(self, side: str, values: torch.Tensor) -> torch.Tensor:
        """Return effects as they are drawn."""
        if not self.is_share:
            return values
        return values / (self.two.gap if side == ENOUGH else -self.two.gap)


def payloads(run: CurrentRun, choices: Choices) -> Pictures:
    """Return the payloads of all components of the section."""
    two, note = usable(run, choices)
    if two is None:
        site = next(iter(run.trace.attention.values()), None)
        checks = check_rows(check_site(site) if site is not None else [])
        return {NOTE: small_print(note, bad=True), "checks": checks}
    shown = measured(two, choices)
    is_bad = bool(note)
    return {
        NOTE: small_print(note or _counts(shown), bad=is_bad),
        "patch": picture(run, choices, shown),
        "outcome": answers(run, choices, two),
        "checks": check_rows(_checks(shown)),
    }


def usable(run: CurrentRun, choices: Choices) -> tuple[Two | None, str]:
    """Return the runs of the second text, or of the last one that could be used with why this one cannot."""
    two = two_runs(run, choices.second, choices.position)
    if isinstance(two, Two):
        return two, ""
    for texts in choices.instead:
        if isinstance(other := two_runs(run, texts, choices.position), Two):
            return other, two
    return None, two


def measured(two: Two, choices: Choices) -> Shown:
    """Try every part, both ways."""
    scope, trace = two.this.scope, two.this.trace
    every = grids(scope, trace, choices.part)
    grid = next((one for one in every if one.key == choices.stream), next(iter(every), None))
    is_share = choices.unit == "share" and abs(two.gap) >= LEAST_GAP
    return Shown(two, grid, {side: _effects(two, side, grid) for side in SIDES}, is_share)


def _effects(two: Two, side: str, grid: Grid | None) -> Effects:
    base, source = two.sides(side)
    scope, trace, metric = base.scope, base.trace, two.metric(side)
    n_heads = sum(site.n_heads for site in trace.attention.values() if site.has_causes)
    n_cells = len(grid.names) * len(trace.streams[grid.stream].ids) if grid else 0
    n = max(len(row.ids) for row in trace.streams.values())
    if (n_heads + n_cells) * n > MOST_WORK:
        return Effects(None, None)
    cells = heads = None
    if grid is not None:
        pairs = two.pairs(side, grid.stream)
        with suppress(ValueError):  # a model of others may record what it cannot change
            cells = cache.cell_effects(scope, trace, source.trace, metric, grid.names, pairs)
    if n_heads:
        named = f"patch from {source.patched_from}"
        own = CurrentRun(scope, trace)
        heads = cache.head_effects(own, metric, partial(two.patch, side), named)
    return Effects(cells, heads)


def _counts(shown: Shown) -> str:
    two = shown.two
    stream = next(
        (name for name in two.this.trace.streams if two.pairs(NEEDED, name)),
        shown.grid.stream if shown.grid else next(iter(two.this.trace.streams)),
    )
    n, m = (len(run.trace.streams[stream].ids) for run in (two.this, two.other))
    return say.tokens(n, m, len(two.pairs(NEEDED, stream)))


def picture(run: CurrentRun, choices: Choices, shown: Shown) -> dict[str, Any]:
    """Return the payload of both grids and both boards."""
    two, unit = shown.two, shown.two.metric(NEEDED).unit
    drawn = [
        shown.shown(side, values).flatten()
        for side, effects in shown.effects.items()
        for values in _grids_of(effects)
    ]
    finite = torch.cat(drawn) if drawn else torch.zeros(0)
    finite = finite[finite.isfinite()]
    panels = [panel(run, choices, shown, side) for side in SIDES]
    levels = (level(two.metric(side), two.sides(side)[0].trace) for side in SIDES)
    return {
        "measured": say.measured(two.decision.label.text, two.rival_name, two.row, *levels),
        "unit": "of the gap" if shown.is_share else unit,
        "largest": float(finite.abs().max()) if len(finite) else 0.0,
        "hint": _hint(run, choices, shown),
        "is_tried": bool(drawn),
        "panels": panels,
    }


def _grids_of(effects: Effects) -> list[torch.Tensor]:
    heads = [] if effects.heads is None else list(effects.heads.values.values())
    return [*heads, *([] if effects.cells is None else [effects.cells])]


def panel(run: CurrentRun, choices: Choices, shown: Shown, side: str) -> dict[str, Any]:
    """Return one side: its meaning, its grid of cells and its boards of heads."""
    two, grid, effects = shown.two, shown.grid, shown.effects[side]
    base, _ = two.sides(side)
    taken = edits_of(run, choices, side)
    return {
        "side": side,
        "title": say.TITLES[side],
        "means": say.MEANINGS[side],
        "text": " / ".join(_texts(base.trace)),
        "sentence": _sentence(shown, side),
        "grid": None if grid is None else _grid(shown, side, grid, taken, _edited(run, shown, side, taken)),
        "kinds": _kinds(shown, side, effects, taken),
    }  # fmt: skip


def edits_of(run: CurrentRun, choices: Choices, side: str) -> Edits:
    """Return the edits in force in the run of this side."""
    return run.trace.edits if side == NEEDED else choices.other_edits


def _edited(run: CurrentRun, shown: Shown, side: str, taken: Edits) -> Trace | None:
    """Return the run of this side under its patches alone; None if there are none."""
    patches = tuple(edit for edit in taken if isinstance(edit, Patch))
    base, _ = shown.two.sides(side)
    if not patches:
        return None
    if side == NEEDED and patches == run.trace.edits:
        return run.trace
    return base.with_edits(patches)


def _texts(trace: Trace) -> list[str]:
    return [value for value in trace.fields.values() if isinstance(value, str) and value]


def _grid(
    shown: Shown, side: str, grid: Grid, taken: Edits, edited: Trace | None
) -> dict[str, Any]:
    two = shown.two
    base, _ = two.sides(side)
    pairs = two.pairs(side, grid.stream)
    n = len(base.trace.streams[grid.stream].ids)
    aligned = {here for here, _ in pairs} if pairs else set(range(n))
    values = shown.effects[side].cells
    values = None if values is None else shown.shown(side, values)
    far = moved(edited, base.trace, grid) if edited is not None else torch.zeros(len(grid.names), n)
    return {
        "title": grid.title,
        "tokens": [one.as_json() for one in labels(base.trace.streams[grid.stream])],
        "layers": list(grid.labels),
        "names": list(grid.names),
        "effects": [
            [finite(None if values is None else values[i, j]) for j in range(n)]
            for i in range(len(grid.names))
        ],
        "aligned": [j in aligned for j in range(n)],
        "taken": [
            [
                j in aligned
                and two.patch(side, Where(activation=name, queries=(j,))) in taken
                for j in range(n)
            ]
            for name in grid.names
        ] if taken else [[False] * n for _ in grid.names],
        "moved": [[float(x) if float(x) > MOVED else 0.0 for x in row] for row in far],
    }  # fmt: skip


def finite(value: torch.Tensor | None) -> float | None:
    """Return a number for the browser; None if it is not one."""
    return None if value is None or not math.isfinite(float(value)) else float(value)


def _kinds(shown: Shown, side: str, effects: Effects, taken: Edits) -> list[dict[str, Any]]:
    two = shown.two
    base, _ = two.sides(side)
    kinds = []
    for kind, sites in by_kind(base.trace):
        sites = [site for site in sites if site.has_causes]
        if not sites:
            continue
        values = None if effects.heads is None else shown.shown(side, effects.heads.values[kind])
        n_heads = max(site.n_heads for site in sites)
        kinds.append(
            {
                "title": words.kind_title(sites[0]),
                "sites": [site.name for site in sites],
                "layers": [site.layer + 1 for site in sites],
                "heads": n_heads,
                "effects": [
                    [finite(None if values is None else values[i, head]) for head in range(n_heads)]
                    for i in range(len(sites))
                ],
                "taken": [
                    [
                        head < site.n_heads
                        and bool(taken)
                        and two.patch(side, Where(site=site.name, heads=(head,))) in taken
                        for head in range(n_heads)
                    ]
                    for site in sites
                ],
            }
        )
    return kinds


def strongest_cell(shown: Shown, side: str) -> tuple[int, int, float] | None:
    """Return the row, the position and the effect of the strongest cell, as it is drawn."""
    cells = shown.effects[side].cells
    if cells is None or shown.grid is None:
        return None
    values = shown.shown(side, cells)
    size = values.abs().nan_to_num(-1)
    i, j = divmod(int(size.argmax()), values.shape[1])
    return (i, j, float(values[i, j])) if float(size[i, j]) >= 0 else None


def strongest_head(shown: Shown, side: str) -> tuple[str, int, float] | None:
    """Return the attention, the head and the effect of the strongest head, as it is drawn."""
    heads = shown.effects[side].heads
    if heads is None:
        return None
    site, head, value = strongest(heads)
    return site, head, float(shown.shown(side, torch.tensor(value)))


def _sentence(shown: Shown, side: str) -> str:
    """Say what the strongest cell and the strongest head do."""
    two, unit = shown.two, shown.two.metric(side).unit
    base, _ = two.sides(side)

    def say_of(place: str, value: float) -> str:
        if shown.is_share and side == ENOUGH:
            return say.brings(place, value)
        return say.strongest(place, value, "share" if shown.is_share else unit)

    said = []
    if (cell := strongest_cell(shown, side)) and shown.grid:
        i, j, value = cell
        token = labels(base.trace.streams[shown.grid.stream])[j].text
        said.append(say_of(f"{shown.grid.labels[i]} of “{token}”", value))
    if head := strongest_head(shown, side):
        site, number, value = head
        said.append(say_of(text.place(base.trace.attention[site], number), value))
    return " ".join(said) if said else say.TOO_LONG


def _hint(run: CurrentRun, choices: Choices, shown: Shown) -> str:
    """Say what the patches in force reach, or how to make one."""
    side, grid = choices.side, shown.grid
    taken = edits_of(run, choices, side)
    edited = _edited(run, shown, side, taken)
    base, _ = shown.two.sides(side)
    if choices.unit == "share" and not shown.is_share:
        return say.no_share(shown.two.gap)
    if edited is None or grid is None:
        return say.HINT
    cells = [
        (grid.names.index(edit.where.activation), edit.where.queries[0])
        for edit in edited.edits
        if edit.where.activation in grid.names and edit.where.queries
    ]
    far = moved(edited, base.trace, grid) > MOVED
    reached = [tuple(cell) for cell in far.nonzero().tolist() if tuple(cell) not in cells]
    n_cells = far.numel() - len(cells)
    if not cells:
        return say.reach_of_heads(len(reached), n_cells)
    first_layer, tokens = min(i for i, _ in cells), [j for _, j in cells]
    return say.reach(
        len(reached),
        n_cells,
        sum(i < first_layer for i, _ in reached),
        sum(j < min(tokens) for _, j in reached),
        sum(j > max(tokens) for _, j in reached),
    )


def answers(run: CurrentRun, choices: Choices, two: Two) -> dict[str, Any]:
    """Return the payload of the answers: of both texts, and of the patched run of the chosen side."""
    side = choices.side
    base, source = two.sides(side)
    if side == NEEDED:
        before = cache.changed_run(run.unchanged, run.spec.without("edits"))
        asked = Asked(before, run, two.all, two.chosen)
    else:
        edited = base.with_edits(choices.other_edits)
        every = [
            replace(one, row=row)
            for one, row in zip(two.all, two.rows, strict=True)
            if row is not None
        ]
        chosen = sum(row is not None for row in two.rows[: two.chosen])
        asked = Asked(CurrentRun(base.scope, base.trace), CurrentRun(base.scope, edited), every, chosen)  # fmt: skip
    drawn = outcome(asked)
    own, patched = drawn["answers"]
    other = answer_words(CurrentRun(source.scope, source.trace))
    first = next(
        (i for i, (a, b) in enumerate(zip(own["words"], other, strict=False)) if a != b),
        -1 if len(own["words"]) == len(other) else min(len(own["words"]), len(other)),
    )
    names = ("This text", "Other text") if side == NEEDED else ("Other text", "This text")
    drawn["answers"] = [
        own | {"whose": names[0]},
        {"whose": names[1], "words": other, "from": first},
        patched | {"whose": f"{names[0]}, patched"},
    ]
    if drawn["verdict"] == text.NOTHING_YET:
        drawn["verdict"] = say.NOTHING_YET
    return drawn


def _checks(shown: Shown) -> list[Check]:
    """Check the strongest cell alone, a run patched with itself, and everything patched."""
    two, grid = shown.two, shown.grid
    base, _ = two.sides(NEEDED)
    scope, trace, metric = base.scope, base.trace, two.metric(NEEDED)
    checks: list[Check] = []
    cells = shown.effects[NEEDED].cells
    if grid is not None and cells is not None and (cell := strongest_cell(shown, NEEDED)):
        i, j, _ = cell
        where = Where(activation=grid.names[i], queries=(j,))
        alone = float(effects_of(scope, trace, [(two.patch(NEEDED, where),)], metric)[0])
        value = float(cells[i, j])
        checks.append(
            Check(
                "the strongest cell alone",
                abs(alone - value),
                EXACT * max(1.0, abs(value)),
                "Its effect in a run of its own, against that in the batch of all cells",
            )
        )
        own: list[Edit] = [Patch(where, fields=base.patched_from)]
        same = effects_of(scope, trace, [tuple(own)], Divergence(two.row))
        checks.append(
            Check(
                "patched with itself: 0",
                float(same[0]),
                0.0,
                "The strongest cell put in its own place; KL divergence of the two distributions in nats",
            )
        )
    if (gap := _everything(shown)) is not None:
        checks.append(
            Check(
                "everything patched: the other run",
                gap,
                EXACT,
                "Every cell of the residual stream taken from the other run; largest difference of the logits from its own",
            )
        )
    site = next(iter(trace.attention.values()), None)
    return [*checks, *(check_site(site) if site is not None else [])]


def _everything(shown: Shown) -> float | None:
    """Return how far this run is from the other if every cell is taken; None where token counts differ."""
    two = shown.two
    if any(two.pairs(NEEDED, stream) for stream in two.this.trace.streams):
        return None
    every = grids(two.this.scope, two.this.trace, "residual")
    patches = [
        Patch(Where(activation=name), fields=two.other.patched_from)
        for grid in every
        for name in grid.names
    ]
    if not patches or shown.effects[NEEDED].cells is None:
        return None
    after = two.this.scope.outputs_batch([two.this.trace.streams], patches)[0]
    now, wanted = logits_of(after), logits_of(two.other.trace.outputs)
    apart = torch.where(now == wanted, 0.0, (now - wanted).abs())  # −∞ where an option is ruled out
    return float(apart.max())


def table(run: CurrentRun, choices: Choices) -> list[list[object]]:
    """Return the rows of the table of all effects, with its head."""
    head: list[object] = ["side", "part", "layer", "head or token", "effect", "unit"]
    two, _ = usable(run, choices)
    if two is None:
        return [head]
    shown, found = measured(two, choices), [head]
    for side in SIDES:
        drawn = panel(run, choices, shown, side)
        unit = "share of the gap" if shown.is_share else two.metric(side).unit
        for kind in drawn["kinds"]:
            found += [
                [side, kind["title"], layer, i + 1, value, unit]
                for layer, values in zip(kind["layers"], kind["effects"], strict=True)
                for i, value in enumerate(values)
                if value is not None
            ]
        if grid := drawn["grid"]:
            found += [
                [side, name, layer, grid["tokens"][i][0], value, unit]
                for name, layer, values in zip(grid["names"], grid["layers"], grid["effects"], strict=True)
                for i, value in enumerate(values)
                if value is not None
            ]  # fmt: skip
    return found
