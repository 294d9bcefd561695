"""Downloads of the page From RNN to attention."""

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from models.analysis.layer_timing import Timing
from viz_app.drawing.csv_file import csv_table
from viz_app.drawing.export import npz_file
from viz_app.views.from_rnn.charts import shares_of_best
from viz_app.views.from_rnn.maps import AlignmentMap, LayerReach


def influence_csv(layers: Sequence[LayerReach], tokens: Sequence[str]) -> str:
    """Return a row for each pair of a layer: norm, reachable or not, number of steps.

    Positions count from 0.
    """
    head = [
        "layer",
        "weights",
        "output i",
        "output token",
        "input j",
        "input token",
        "norm",
        "reached",
        "steps",
    ]
    rows = (
        [
            layer.reach.choice.kind,
            layer.weights,
            i,
            tokens[i],
            j,
            tokens[j],
            str(layer.reach.norms[i, j].numpy()),
            bool(layer.reach.reaches[i, j]),
            int(layer.reach.steps[i, j]),
        ]
        for layer in layers
        for i in range(len(tokens))
        for j in range(len(tokens))
    )
    return csv_table(head, rows)


def influence_npz(layers: Sequence[LayerReach], tokens: Sequence[str]) -> bytes:
    """Return the norms and steps of each layer under its kind, and the tokens."""
    arrays = {"tokens": np.array(tokens)}
    for layer in layers:
        kind = layer.reach.choice.kind.replace(" ", "-")
        arrays |= {
            f"{kind}.norms": layer.reach.norms.numpy(),
            f"{kind}.steps": layer.reach.steps.numpy(),
        }
    return npz_file(arrays)


def distance_csv(layers: Sequence[LayerReach]) -> str:
    """Return the mean norm of the pairs that a layer can reach, by distance."""
    rows = (
        [layer.reach.choice.kind, layer.weights, *entry]
        for layer in layers
        for entry in layer.reach.norms_by_distance()
    )
    return csv_table(["layer", "weights", "distance", "mean norm", "pairs"], rows)


def timings_csv(timings: Sequence[Timing], where: str) -> str:
    """Return a row for each repetition, in seconds."""
    rows = (
        [t.layer, t.n, i, seconds, where] for t in timings for i, seconds in enumerate(t.seconds)
    )
    return csv_table(["layer", "tokens", "repetition", "seconds", "machine"], rows)


def lengths_csv(records: Mapping[str, Sequence[dict]]) -> str:
    """Return a row for each bucket of a checkpoint, with its share of the best bucket's score."""
    rows = (
        [name, b["least"], b["most"], b["cases"], b["score"], share]
        for name, buckets in records.items()
        for b, share in zip(buckets, shares_of_best(buckets), strict=True)
    )
    return csv_table(
        ["checkpoint", "least words", "most words", "cases", "BLEU", "share of its best"], rows
    )


def alignments_csv(
    pair: Sequence[AlignmentMap], source: Sequence[str], steps: Sequence[str], divergence: Tensor
) -> str:
    """Return a row for each step and source token: both weights, the step's divergence in bits."""
    first, second = pair
    rows = (
        [
            i,
            steps[i],
            j,
            source[j],
            *(
                str(value.numpy())
                for value in (first.weights[i, j], second.weights[i, j], divergence[i])
            ),
        ]
        for i in range(len(steps))
        for j in range(len(source))
    )
    head = [
        "step",
        "read → written",
        "source position",
        "source token",
        first.title,
        second.title,
        "Jensen–Shannon (bits)",
    ]
    return csv_table(head, rows)
