"""Payloads of the component `maps`: Jacobian norms of layers, and two alignments compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from models.analysis.divergence import MAX_DIVERGENCE, jensen_shannon
from models.analysis.jacobian_reach import Reach
from models.tokenizers.base import Encoding
from viz_app.drawing.extent import OWN_EXTENT, Extent, widen_scales
from viz_app.drawing.labels import labels, step_labels
from viz_app.drawing.payload import pack

# share of a scale's maximum below which colours are nearly white; the start of the log scale
FAINTEST = 1e-3
# option → (its label, the component's scale). The first is the default: under a square root the
# thousandfold fade of a recurrence is visible from end to end, and the faint influences in
# self-attention are not lost in white
MAP_SCALES = {
    "root": ("√, each from its own largest", "root"),
    "linear": ("Linear, each from its own largest", "linear"),
    "own": ("Log, each from its own largest", "log"),
    "one": ("Log, one scale for all", "log"),
}


@dataclass(frozen=True)
class LayerReach:
    """One layer's norms, and whose weights they are.

    `model` is the model of its weights, or of the embeddings that it reads.
    """

    reach: Reach
    weights: str
    model: str = ""


def influence(
    layers: Sequence[LayerReach],
    source: Encoding,
    scale: str,
    saved: Mapping[str, str],
    extent: Extent = OWN_EXTENT,
) -> bytes:
    """Return the payload of ‖∂y(i)/∂x(j)‖ of each layer, a row an output, a column an input.

    Exact zeros are hatched. `scale` is one of MAP_SCALES, `saved` what `drawing.stamp.saving`
    returns; the scales cover `extent`.

    Raises:
        ValueError: there is no such scale.
    """
    if scale not in MAP_SCALES:
        raise ValueError(f"scale must be one of {', '.join(MAP_SCALES)}, not {scale!r}")
    tokens = [label.as_json() for label in labels(source)]
    name, scaled = MAP_SCALES[scale]
    largest = {layer.reach.choice.kind: float(layer.reach.norms.max()) for layer in layers}
    shared = max(largest.values(), default=0.0)
    scales = dict.fromkeys(largest, shared) if scale == "one" else largest
    tops = widen_scales(scales, extent)
    both = "; one scale for both runs" if extent else ""
    arrays, maps = {}, []
    for i, layer in enumerate(layers):
        top = tops[layer.reach.choice.kind]
        arrays[f"map{i}"] = layer.reach.norms.numpy()
        maps.append({
            "title": _title(layer.reach), "note": f"{layer.weights}. {_white(layer.reach, top)}", "array": f"map{i}",
            "scale": scaled, "least": top * FAINTEST, "largest": top, "none": "nothing arrives",
            "says": f"‖∂y(i)/∂x(j)‖, {'√' if scaled == 'root' else scaled} scale; hatched = 0: not reachable",
        })  # fmt: skip
    header = {
        "title": f"Influence of each input token on each output ({name[0].lower()}{name[1:]}{both})", **saved,
        "extent": scales,
        "rowAxis": "output y(i)", "colAxis": "input x(j)", "rows": tokens, "cols": tokens, "maps": maps,
    }  # fmt: skip
    return pack(header, **arrays)


def _white(reach: Reach, top: float) -> str:
    """Return the meaning of white in this picture, and the number of reachable white cells."""
    faint = int((reach.reaches & (reach.norms < FAINTEST * top)).sum())
    return (
        f"White: reachable, but influence < {100 * FAINTEST:g} % of the maximum {top:.2g} ({faint} of "
        f"{int(reach.reaches.sum())} pairs)"
    )


def _title(reach: Reach) -> str:
    choice = reach.choice
    return (
        f"CNN, width {choice.width}, {choice.depth} layer{'s' * (choice.depth > 1)}"
        if choice.kind == "CNN"
        else (choice.kind[0].upper() + choice.kind[1:])
    )


@dataclass(frozen=True)
class AlignmentMap:
    """One model's weights (m, n) from each target step to each source token, with its title."""

    title: str
    note: str
    weights: torch.Tensor


def alignments(
    pair: Sequence[AlignmentMap], source: Encoding, target: Encoding, saved: Mapping[str, str]
) -> bytes:
    """Return two alignments on one scale from 0 to 1, and each step's Jensen–Shannon divergence."""
    maps: list[dict[str, Any]] = [
        {"title": one.title, "note": one.note, "array": f"map{i}", "scale": "linear", "least": 0.0, "largest": 1.0, "none": "",
         "says": "attention weight, one scale"}
        for i, one in enumerate(pair)
    ]  # fmt: skip
    bars = {
        "title": "How far apart the two rows are",
        "array": "bars",
        "bars": True,
        "largest": MAX_DIVERGENCE,
        "none": "",
        "says": "bit",
        "note": "Jensen–Shannon divergence: 0 = the same, 1 bit = no overlap. Token by token, as the rows beside it.",
    }
    header = {
        "title": "What each model attends to in the source as it writes each token",
        **saved,
        "rowAxis": "query: read → written",
        "colAxis": "key",
        "rows": [label.as_json() for label in step_labels(target, is_closed=True)],
        "cols": [label.as_json() for label in labels(source)],
        "maps": maps,
        "bars": bars,
    }
    numbers = {f"map{i}": one.weights.numpy().astype(np.float32) for i, one in enumerate(pair)}
    return pack(header, **numbers, bars=jensen_shannon(*(one.weights for one in pair)).numpy())
