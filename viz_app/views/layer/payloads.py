"""What the page "A layer, step by step" shows of a run: every sublayer along a stream at one token, and one layer in full."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import Tensor

from models import InputError
from models.analysis.layer_parts import Part, are_recorded, check_parts, mean_and_spread
from models.hub.anatomy import LARGEST
from viz_app.drawing.notes import check_rows
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import facts, saving
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.layer import text
from viz_app.views.layer.token_view import Choices, TokenView, token_view

LISTED = 3  # tokens of what the model would say at each stop
STRONGEST = 4  # numbers of a feed-forward that are named


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
    view = token_view(run, choices)
    return {
        "layer": layer(view),
        "checks": check_rows(check_parts(run.scope.model, run.trace, view.parts, view.position)),
    }


def unkept(run: CurrentRun) -> str:
    """Why nothing can be shown of this text; "" if all of it can."""
    longest = max(len(row.ids) for row in run.trace.streams.values())
    return (
        ""
        if are_recorded(run.scope.model, run.trace)
        else text.too_long(longest, LARGEST // run.scope.config.d_model)
    )


def layer(view: TokenView) -> bytes:
    """The payload of the component `layer`."""
    rows, arrays = vectors(view)
    best = None if view.log_probs is None else int(view.log_probs[-1].argmax())
    first, answer = view.layer[0].sublayer, None if best is None else view.label(best)
    header: dict[str, Any] = {
        "title": text.title(view.run.terms, first, view.token, answer, view.output),
        "allTitle": text.all_title(first, view.token, view.output),
        "oneTitle": text.one_title(first),
        "tokens": [label.as_json() for label in view.tokens],
        "position": view.position,
        "stops": stops(view, best),
        "adds": first.adds,
        "answer": answer and answer.as_json(),
        "without": ""
        if view.output
        else text.no_lens(first, view.reader, view.answering, view.guesses_masks),
        "rows": [asdict(row) for row in rows],
        "firing": firing_sentence(view),
        **saving(
            file_name(view.run.trace, first.stack, f"token{view.position + 1}"),
            facts(view.run.trace),
        ),
    }
    return pack(header, **arrays)


def stops(view: TokenView, answer: int | None) -> list[dict[str, Any]]:
    """The stream before the first sublayer and behind each: what was added, how it points, how long the stream is, and what the
    model would say."""
    rows = [
        {
            "name": text.START,
            "layer": "",
            "site": "",
            "chosen": False,
            "added": None,
            "direction": None,
            "length": _length(view.parts[0].before),
        }
    ]
    for part in view.parts:
        rows.append(
            {
                "name": text.role(part.sublayer),
                "layer": text.layer_name(part.sublayer),
                "site": _site(view, part),
                "chosen": part.sublayer.layer == view.choices.layer,
                "added": _length(part.added),
                "direction": part.direction,
                "length": _length(part.after),
            }
        )
    if view.log_probs is not None:
        for row, log_probs in zip(rows, view.log_probs, strict=True):
            best = log_probs.topk(min(LISTED, len(log_probs)))
            named = [view.label(i).as_json() for i in best.indices.tolist()]
            row["best"] = list(zip(named, best.values.exp().tolist(), strict=True))
            row["answer"] = float(log_probs[answer].exp())
    return rows


def _site(view: TokenView, part: Part) -> str:
    """The attention by which this part's layer is chosen."""
    return next(p.sublayer.path for p in view.parts if p.sublayer.layer == part.sublayer.layer)


def vectors(view: TokenView) -> tuple[list[Row], dict[str, np.ndarray]]:
    """The chosen layer in full, in the order in which it is worked out, and its vectors."""
    rows: list[Row] = []
    arrays: dict[str, np.ndarray] = {}

    def put(kind: str, name: str, vector: Tensor) -> None:
        array = f"row{len(rows)}"
        arrays[array] = vector.numpy()
        rows.append(
            Row(
                kind,
                name,
                array,
                _length(vector),
                *mean_and_spread(vector),
                float(vector.abs().max()),
            )
        )

    put("stream", text.BEFORE, view.layer[0].before)
    for part in view.layer:
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


def firing_sentence(view: TokenView) -> str:
    """How many numbers of the layer's feed-forward fire, and which are strongest; empty for a layer without one."""
    part = next((part for part in view.layer if part.firing is not None), None)
    if part is None:
        return ""
    strongest = part.firing.strongest(STRONGEST)
    named = list(zip((strongest + 1).tolist(), part.firing.post[strongest].tolist(), strict=True))
    return text.firing(part.sublayer, int(part.firing.fires.sum()), len(part.firing.pre), named)


def _length(x: Tensor) -> float:
    return float(x.norm())
