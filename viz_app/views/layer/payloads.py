"""What the page "A layer, step by step" shows of a run: every sublayer along a stream at one token, and one layer in full."""

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from models import InputError
from models.analysis.layer_parts import Part, are_kept, check_parts, lens, mean_and_spread, output_read, parts
from models.architectures.base import NEXT_TOKEN
from models.hub.anatomy import LARGEST
from models.trace.outputs import ClassProbabilities
from viz_app.drawing.labels import Label, labels, token_label
from viz_app.drawing.notes import checked
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import facts, saving
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.layer import text

LISTED = 3          # tokens of what the model would say at each stop
STRONGEST = 4       # numbers of a feed-forward that are named


@dataclass(frozen=True)
class Choices:
    """What is chosen on the page: a stream, a layer of it by its number from 0 (None: what stands behind the numbered ones), a
    token by its position, None where a telling one is to be found, and, where the stream has several, a row of states."""

    stream: str
    layer: int | None
    position: int | None
    states: str = ""


@dataclass(frozen=True)
class Shown:
    """One token of a run, and what every sublayer along its stream does to it."""

    run: CurrentRun
    choices: Choices
    position: int

    @cached_property
    def parts(self) -> list[Part]:
        return parts(self.run.scope.model, self.run.trace, self.choices.stream, self.position, self.choices.states)

    @cached_property
    def layer(self) -> list[Part]:
        """Those of the chosen layer."""
        return [part for part in self.parts if part.sublayer.layer == self.choices.layer]

    @property
    def output(self) -> str:
        """The output that the model reads from this token's stream, so that it can be asked what it would say; "" if none."""
        return output_read(self.run.scope.model, self.run.trace, self.choices.stream, self.position)

    @property
    def reader(self) -> str:
        """The stack that reads this stream besides its own; "" if none does."""
        stream, sites = self.choices.stream, self.run.trace.attention.values()
        return next((site.stack for site in sites if site.key_stream == stream != site.query_stream), "")

    @property
    def answering(self) -> Label | None:
        """The token by which a text is classified, if the model can be asked what it would say there."""
        place = _answering(self.run, self.choices.stream)
        return None if place is None else self.tokens[place]

    @cached_property
    def log_probs(self) -> Tensor | None:
        """log p of what the output may say, at each stop: before the first sublayer, and behind each."""
        stops = [self.parts[0].before, *(part.after for part in self.parts)]
        return lens(self.run.scope.model, stops, self.output) if self.output else None

    @property
    def tokens(self) -> list[Label]:
        return labels(self.run.trace.streams[self.choices.stream])

    @property
    def token(self) -> Label:
        return self.tokens[self.position]

    def label(self, token: int) -> Label:
        """One of the classes, or a token that could follow the chosen one."""
        if self.output != NEXT_TOKEN:
            return Label(self.run.trace.outputs[self.output].names[token])
        return token_label(self.run.scope.tokenizer, token, first=self.position == 0 and not self.run.scope.model.continues)


@dataclass(frozen=True)
class Row:
    """A vector of the layer in full. `kind` is "stream", "added", "total", "normed" or "firing"."""

    kind: str
    name: str
    array: str
    length: float
    mean: float
    spread: float
    peak: float


def payloads(run: CurrentRun, choices: Choices) -> Pictures:
    """All that the page's components show of a run. Raises models.InputError for a text on which not all of it is kept."""
    if said := unkept(run):
        raise InputError(said, run.scope.model.fields[0].name)
    found = shown(run, choices)
    return {"layer": layer(found), "checks": checked(check_parts(run.scope.model, run.trace, found.parts, found.position))}


def unkept(run: CurrentRun) -> str:
    """Why nothing can be shown of this text; "" if all of it can."""
    longest = max(len(row.ids) for row in run.trace.streams.values())
    return "" if are_kept(run.scope.model, run.trace) else text.too_long(longest, LARGEST // run.scope.config.d_model)


def shown(run: CurrentRun, choices: Choices) -> Shown:
    """The chosen token; where none is chosen or it is no longer there, the one that answers, else the first behind the start."""
    n = len(run.trace.streams[choices.stream].ids)
    position = choices.position
    if position is None or position >= n:
        found = _answering(run, choices.stream)
        position = min(1, n - 1) if found is None else found
    return Shown(run, choices, position)


def chosen_position(run: CurrentRun, choices: Choices, position: int) -> int | None:
    """What a click on this token chooses: the one that answers stays the one while the text grows."""
    return None if position == _answering(run, choices.stream) else position


def _answering(run: CurrentRun, stream: str) -> int | None:
    """The token that the model's answer is read from: the last of a text that goes on, the one by which a text is classified."""
    model, trace = run.scope.model, run.trace
    if model.continues:
        return len(trace.streams[stream].ids) - 1
    classes = (output for output in trace.outputs.values() if isinstance(output, ClassProbabilities))
    return next((output.position for output in classes if output.stream == stream == model.read_stream), None)


def layer(found: Shown) -> bytes:
    """The payload of the component `layer`."""
    rows, arrays = vectors(found)
    best = None if found.log_probs is None else int(found.log_probs[-1].argmax())
    first, answer = found.layer[0].sublayer, None if best is None else found.label(best)
    header: dict[str, Any] = {
        "title": text.title(found.run.terms, first, found.token, answer, found.output),
        "allTitle": text.all_title(first, found.token, found.output), "oneTitle": text.one_title(first),
        "tokens": [label.as_json() for label in found.tokens], "position": found.position,
        "stops": stops(found, best), "adds": first.adds, "answer": answer and answer.as_json(),
        "without": "" if found.output else text.no_lens(first.stack, found.reader, first.states, found.answering),
        "rows": [asdict(row) for row in rows], "firing": firing_sentence(found),
        **saving(file_name(found.run.trace, first.stack, f"token{found.position + 1}"), facts(found.run.trace)),
    }
    return pack(header, **arrays)


def stops(found: Shown, answer: int | None) -> list[dict[str, Any]]:
    """The stream before the first sublayer and behind each: what was added, how it points, how long the stream is, and what the
    model would say."""
    rows = [{
        "name": text.START, "layer": "", "site": "", "chosen": False, "added": None, "direction": None,
        "length": _length(found.parts[0].before),
    }]
    for part in found.parts:
        rows.append({
            "name": text.role(part.sublayer), "layer": text.layer_name(part.sublayer), "site": _site(found, part),
            "chosen": part.sublayer.layer == found.choices.layer, "added": _length(part.added), "direction": part.direction,
            "length": _length(part.after),
        })
    if found.log_probs is not None:
        for row, log_probs in zip(rows, found.log_probs, strict=True):
            best = log_probs.topk(min(LISTED, len(log_probs)))
            named = [found.label(i).as_json() for i in best.indices.tolist()]
            row["best"] = list(zip(named, best.values.exp().tolist(), strict=True))
            row["answer"] = float(log_probs[answer].exp())
    return rows


def _site(found: Shown, part: Part) -> str:
    """The attention by which this part's layer is chosen."""
    return next(p.sublayer.path for p in found.parts if p.sublayer.layer == part.sublayer.layer)


def vectors(found: Shown) -> tuple[list[Row], dict[str, np.ndarray]]:
    """The chosen layer in full, in the order in which it is worked out, and its vectors."""
    rows: list[Row] = []
    arrays: dict[str, np.ndarray] = {}

    def put(kind: str, name: str, vector: Tensor) -> None:
        array = f"row{len(rows)}"
        arrays[array] = vector.numpy()
        rows.append(Row(kind, name, array, _length(vector), *mean_and_spread(vector), float(vector.abs().max())))

    put("stream", text.BEFORE, found.layer[0].before)
    for part in found.layer:
        sublayer = part.sublayer
        if sublayer.norm == "pre":
            put("normed", text.read_name(sublayer), part.normed)
        if part.firing is not None:
            put("firing", text.firing_name(sublayer), part.firing.post)
        put("added", text.added_name(sublayer), part.added)
        if sublayer.norm == "post":
            put("total", text.SUM, part.total)
            put("normed", text.normed_name(sublayer), part.normed)
        if sublayer.norm == "pre":
            put("stream", text.STREAM, part.after)
    return rows, arrays


def firing_sentence(found: Shown) -> str:
    """How many numbers of the layer's feed-forward fire, and which are strongest; empty for a layer without one."""
    part = next((part for part in found.layer if part.firing is not None), None)
    if part is None:
        return ""
    strongest = part.firing.strongest(STRONGEST)
    named = list(zip((strongest + 1).tolist(), part.firing.post[strongest].tolist(), strict=True))
    return text.firing(part.sublayer, int(part.firing.fires.sum()), len(part.firing.pre), named)


def _length(x: Tensor) -> float:
    return float(x.norm())
