"""What the page "A layer, step by step" shows of a run: every sublayer along a stream at one token, and one layer in full."""

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from models.analysis.layer_parts import Part, check_parts, lens, mean_and_spread, parts
from viz_app.drawing.labels import Label, labels
from viz_app.drawing.notes import checked
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import facts, saving
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.decoding.steps import token_label
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
    def writes(self) -> bool:
        """Whether the model writes this stream, so that it can be asked what it would say."""
        return self.choices.stream == self.run.scope.model.writes

    @property
    def reader(self) -> str:
        """The stack that reads this stream besides its own; "" if none does."""
        stream, sites = self.choices.stream, self.run.trace.attention.values()
        return next((site.stack for site in sites if site.key_stream == stream != site.query_stream), "")

    @cached_property
    def said(self) -> Tensor | None:
        """log p of the next token at each stop: before the first sublayer, and behind each."""
        stops = [self.parts[0].before, *(part.after for part in self.parts)]
        return lens(self.run.scope.model, stops) if self.writes else None

    @property
    def tokens(self) -> list[Label]:
        return labels(self.run.trace.streams[self.choices.stream])

    @property
    def token(self) -> Label:
        return self.tokens[self.position]

    def label(self, token: int) -> Label:
        """A token that could follow the chosen one."""
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
    """All that the page's components show of a run."""
    found = shown(run, choices)
    return {"layer": layer(found), "checks": checked(check_parts(run.scope.model, run.trace, found.parts, found.position))}


def shown(run: CurrentRun, choices: Choices) -> Shown:
    """The chosen token; where none is chosen or it is no longer there, the last of a text that goes on, else the first behind
    the beginning."""
    n = len(run.trace.streams[choices.stream].ids)
    position = choices.position
    if position is None or position >= n:
        position = n - 1 if _goes_on(run) else min(1, n - 1)
    return Shown(run, choices, position)


def kept(run: CurrentRun, choices: Choices, position: int) -> int | None:
    """What a click on this token chooses: the last of a text that goes on stays the last while the text grows."""
    is_last = position == len(run.trace.streams[choices.stream].ids) - 1
    return None if is_last and _goes_on(run) else position


def _goes_on(run: CurrentRun) -> bool:
    """Whether the model is asked what follows the text: not where a token of its own closes that."""
    return run.scope.model.continues and run.scope.model.can_write


def layer(found: Shown) -> bytes:
    """The payload of the component `layer`."""
    rows, arrays = vectors(found)
    best = None if found.said is None else int(found.said[-1].argmax())
    first, answer = found.layer[0].sublayer, None if best is None else found.label(best)
    header: dict[str, Any] = {
        "title": text.title(found.run.terms, first, found.token, answer),
        "allTitle": text.all_title(first, found.token, found.writes), "oneTitle": text.one_title(first),
        "tokens": [label.as_json() for label in found.tokens], "position": found.position,
        "stops": stops(found, best), "adds": first.adds, "answer": answer and answer.as_json(),
        "without": "" if found.writes else text.no_lens(first.stack, found.reader, first.states),
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
    if found.said is not None:
        for row, log_probs in zip(rows, found.said, strict=True):
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
            put("normed", text.READ, part.normed)
        if part.firing is not None:
            put("firing", text.firing_name(sublayer), part.firing.post)
        put("added", text.added_name(sublayer), part.added)
        if sublayer.norm == "post":
            put("total", text.SUM, part.total)
            put("normed", text.NORMED, part.normed)
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
    return text.firing(part.sublayer.activation, int(part.firing.fires.sum()), len(part.firing.pre), named)


def _length(x: Tensor) -> float:
    return float(x.norm())
