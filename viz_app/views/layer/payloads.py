"""The payload of the page A layer: all sublayers of a stream at one token, and a full layer."""

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models import InputError
from models.analysis.layer_parts import SublayerEffect, are_recorded, check_parts, mean_and_spread
from models.hub.layer_map import MAX_INNER_NUMBERS
from models.layers.sublayers import FEED_FORWARD
from viz_app.drawing.extent import OWN_EXTENT, Extent, Scaled, widen_scales
from viz_app.drawing.labels import Label
from viz_app.drawing.notes import check_rows
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import counted_from_one, file_name
from viz_app.drawing.stamp import facts, saving
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.layer import text
from viz_app.views.layer.experts import experts, inside_unknown
from viz_app.views.layer.token_view import LayerChoices, TokenView, token_view
from viz_app.views.run_difference import LEARNED_APART, Quantity

N_TOP_TOKENS = 3  # most probable tokens listed at each stop
STRONGEST = 4  # strongest units of a feed-forward that are named


@dataclass(frozen=True)
class VectorRow:
    """A vector in the view of one layer.

    `kind` is "stream", "added", "total", "normed" or "firing".
    """

    kind: str
    name: str
    array: str
    length: float
    mean: float
    spread: float
    peak: float


def layer_payloads(run: CurrentRun, choices: LayerChoices) -> Pictures:
    """Return the payloads of all components of the page.

    Raises:
        InputError: the text is too long for all of it to be recorded.
    """
    if message := recording_error(run):
        raise InputError(message, run.scope.model.fields[0].name)
    view = token_view(run, choices)
    dtype = next(run.scope.model.parameters()).dtype
    routing = [routed.check(dtype) for routed in view.routed.values()]
    checks = check_parts(run.scope.model, run.trace, view.parts, view.position)
    return {
        "layer": Scaled(partial(layer_payload, view)),
        "checks": check_rows([*checks, *routing]),
    }


def layer_quantities(run: CurrentRun, choices: LayerChoices) -> list[Quantity]:
    """Return the residual stream at the chosen token after each sublayer, and that of all tokens.

    The stream of the chosen token begins before the first sublayer; that of all is the one after
    the chosen layer.

    Raises:
        InputError: the text is too long for all of it to be recorded.
    """
    if message := recording_error(run):
        raise InputError(message, run.scope.model.fields[0].name)
    view = token_view(run, choices)
    names = [Label(text.BEFORE_LAYERS)]
    for part in view.parts:
        role = text.role(part.sublayer)
        names.append(Label(role, text.layer_name(part.sublayer)))
    shared: dict[str, Any] = {
        "same": {f"number of {choices.stream} tokens": len(view.tokens)},
        "weights": run.unchanged.scope.fingerprint,
        "note": LEARNED_APART,
        "about": facts(run.trace),
    }
    first, last = view.layer[0].sublayer, view.layer[-1].sublayer
    after = f"layer {text.layer_name(last)}" if last.layer is not None else "the last layer"
    return [
        Quantity(
            f"the residual stream at token {view.position + 1} of the {choices.stream}",
            "value",
            torch.stack([view.parts[0].before, *(part.after for part in view.parts)]),
            names,
            "stop",
            file=f"{first.stack}.token{view.position + 1}.residual-stream",
            **shared,
        ),
        Quantity(
            f"the residual stream of all {choices.stream} tokens after {after}",
            "value",
            run.trace.activations[last.after].value[0],
            view.tokens,
            file=counted_from_one(last.after),
            **shared,
        ),
    ]


def recording_error(run: CurrentRun) -> str:
    """Return the error for a run too long to be recorded; "" if it is short enough."""
    longest = max(len(row.ids) for row in run.trace.streams.values())
    return (
        ""
        if are_recorded(run.scope.model, run.trace)
        else text.recording_too_long(longest, MAX_INNER_NUMBERS // run.scope.config.d_model)
    )


def layer_payload(view: TokenView, extent: Extent = OWN_EXTENT) -> bytes:
    """Return the payload of the component `layer`, whose scales cover `extent`."""
    rows, arrays = vectors(view)
    all_stops = stops(
        view, best := None if view.log_probs is None else int(view.log_probs[-1].argmax())
    )
    extents = {row.array: row.peak for row in rows}
    extents |= {name: max(stop[name] or 0.0 for stop in all_stops) for name in ("added", "length")}
    first, answer = view.layer[0].sublayer, None if best is None else view.label(best)
    header: dict[str, Any] = {
        "title": text.layer_title(view.run.terms, first, view.token, answer, view.output),
        "allTitle": text.all_title(first, view.token, view.output),
        "oneTitle": text.one_title(first),
        "tokens": [label.as_json() for label in view.tokens],
        "position": view.position,
        "stops": all_stops,
        "extent": extents,
        "scales": widen_scales(extents, extent),
        "adds": first.adds,
        "answer": answer and answer.as_json(),
        "without": ""
        if view.output
        else text.no_lens(first, view.reader, view.answering, view.guesses_masks),
        "rows": [asdict(row) for row in rows],
        "firing": firing_sentence(view),
        "experts": experts(view),
        **saving(
            file_name(view.run.trace, first.stack, f"token{view.position + 1}"),
            facts(view.run.trace),
        ),
    }
    return pack(header, **arrays)


def stops(view: TokenView, answer: int | None) -> list[dict[str, Any]]:
    """Return the stops of the stream: before the first sublayer, and after each.

    A stop has the length of the stream and of what was added, its direction, and the model's
    answer.
    """
    rows = [
        {
            "name": text.BEFORE_LAYERS,
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
            best = log_probs.topk(min(N_TOP_TOKENS, len(log_probs)))
            candidates = [view.label(i).as_json() for i in best.indices.tolist()]
            row["best"] = list(zip(candidates, best.values.exp().tolist(), strict=True))
            row["answer"] = float(log_probs[answer].exp())
    return rows


def _site(view: TokenView, part: SublayerEffect) -> str:
    """Return the path of the attention by which this part's layer is chosen; "" without one."""
    layer = [p.sublayer for p in view.parts if p.sublayer.layer == part.sublayer.layer]
    return next((sublayer.path for sublayer in layer if sublayer.attends), "")


def vectors(view: TokenView) -> tuple[list[VectorRow], dict[str, np.ndarray]]:
    """Return the rows of the chosen layer in order of computation, and their vectors."""
    rows: list[VectorRow] = []
    arrays: dict[str, np.ndarray] = {}

    def put(kind: str, name: str, vector: Tensor) -> None:
        array = f"row{len(rows)}"
        arrays[array] = vector.numpy()
        rows.append(
            VectorRow(
                kind,
                name,
                array,
                _length(vector),
                *mean_and_spread(vector),
                float(vector.abs().max()),
            )
        )

    put("stream", text.STREAM_BEFORE, view.layer[0].before)
    for part in view.layer:
        sublayer = part.sublayer
        if sublayer.norm == "pre":
            put("normed", text.read_name(sublayer), part.normed)
        if part.firing is not None:
            put("firing", text.firing_name(sublayer), part.firing.post)
        if part.made is not None:
            put("total", text.made_name(sublayer), part.made)
        put("added", text.added_name(sublayer), part.added)
        if sublayer.norm == "post":
            put("total", text.STREAM_SUM, part.total)
        if part.sets_after:
            put("stream", text.SET_STREAM, part.after)
        elif sublayer.norm == "post":
            put("normed", text.normed_name(sublayer), part.normed)
        elif sublayer.adds:
            put("stream", text.STREAM, part.after)
    return rows, arrays


def firing_sentence(view: TokenView) -> str:
    """Return how many units of the layer's feed-forward fire, and the strongest; "" without one."""
    part = next((part for part in view.layer if part.sublayer.role == FEED_FORWARD), None)
    if part is None:
        return ""
    if part.firing is None:
        return inside_unknown(view)
    strongest = part.firing.strongest(STRONGEST)
    units = list(zip((strongest + 1).tolist(), part.firing.post[strongest].tolist(), strict=True))
    return text.firing_units(
        part.sublayer, int(part.firing.fires.sum()), len(part.firing.pre), units
    )


def _length(x: Tensor) -> float:
    return float(x.norm())
