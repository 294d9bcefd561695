"""Downloads of the page Positions: tables and measurements as CSV and npz."""

from collections.abc import Iterable, Sequence

import numpy as np
from torch import Tensor

from models.analysis.position_measures import FormulaMeasures, SimilarityByDistance, rotation_matrix
from models.analysis.scores_by_distance import RotatedPair, ScoresByDistance
from models.analysis.shuffle import ShuffleTest
from models.layers.rotation import Rotation
from viz_app.drawing.csv_file import csv_table
from viz_app.drawing.export import npz_file


def table_csv(table: Tensor) -> str:
    """Return a row for each position and a column for each dimension, both from 0."""
    return csv_table(
        ["position \\ dimension", *range(table.shape[1])],
        ([i, *row] for i, row in enumerate(table.tolist())),
    )


def table_npz(table: Tensor, waves: Tensor | None, similarity: SimilarityByDistance) -> bytes:
    """Return the table, a formula's wavelengths, and PE·PEᵀ by distance (mean, least, largest)."""
    arrays = {
        "table": table.numpy(),
        **{f"similarity_{n}": getattr(similarity, n).numpy() for n in ("mean", "least", "largest")},
    }
    return npz_file(arrays if waves is None else {**arrays, "wavelengths": waves.numpy()})


def formula_measures_csv(measures: Iterable[FormulaMeasures]) -> str:
    """Return a row for each formula with all numbers of the comparison at full precision."""
    head = [
        "formula",
        "positions",
        "d_model",
        "dimensions that move",
        "shortest vector",
        "longest vector",
        "closest pair",
        "their distance",
        "positions more like a distant one than like those beside them",
        "spread of PE·PEᵀ at one distance",
        "shift k",
        "positions fitted",
        "fixed rotation misses by",
        "best matrix misses by",
    ]
    rows = []
    for m in measures:
        lengths = m.table.norm(dim=1)
        rows.append(
            [
                m.formula,
                *m.table.shape,
                m.n_varying,
                float(lengths.min()),
                float(lengths.max()),
                "{} {}".format(*m.neighbours.closest_pair),
                m.neighbours.least,
                m.neighbours.aliased,
                m.similarity.spread,
                m.shift,
                m.n_fit,
                m.rotation_miss,
                m.best_linear_miss,
            ]
        )
    return csv_table(head, rows)


def measures_npz(measures: Iterable[FormulaMeasures]) -> bytes:
    """Return, under the name of each formula, its table, PE·PEᵀ by distance, and R_k."""
    arrays = {}
    for m in measures:
        arrays[f"{m.formula}.table"] = m.table.numpy()
        arrays[f"{m.formula}.rotation"] = rotation_matrix(
            m.formula, m.shift, m.table.shape[1]
        ).numpy()
        for name in ("mean", "least", "largest"):
            arrays[f"{m.formula}.similarity_{name}"] = getattr(m.similarity, name).numpy()
    return npz_file(arrays)


def shuffle_csv(tokens: Sequence[str], positioned: ShuffleTest, bare: ShuffleTest) -> str:
    """Return a row for each token: its new position, and how far its vector moved at each stage.

    The model runs with positions and without.
    """
    place = np.argsort(positioned.order)
    head = [
        "place",
        "new position",
        "token",
        *(f"{s}, with positions" for s in positioned.stages),
        *(f"{s}, without" for s in bare.stages),
    ]
    with_, without = positioned.change.T.tolist(), bare.change.T.tolist()
    return csv_table(
        head, ([i, int(place[i]), token, *with_[i], *without[i]] for i, token in enumerate(tokens))
    )


def state_moves_csv(tokens: Sequence[str], test: ShuffleTest) -> str:
    """Return a row for each token: its new position, and how far the next state moved.

    Each direction has a column of its own.
    """
    place = np.argsort(test.order)
    changes = test.change.T.tolist()
    rows = ([i, int(place[i]), token, *changes[i]] for i, token in enumerate(tokens))
    return csv_table(["place", "new position", "token", *test.stages], rows)


def angles_csv(turns: Rotation) -> str:
    """Return a row for each position, a column for each pair of dimensions: angles in radians.

    They are not reduced by 2π.
    """
    return csv_table(
        ["position \\ pair", *range(turns.n_pairs)],
        ([i, *row] for i, row in enumerate(turns.angles.tolist())),
    )


def distances_csv(all_pairs: ScoresByDistance, one_pair: RotatedPair | None) -> str:
    """Return a row for each distance (query − key): number of pairs and scores.

    The scores are the mean, the least, the largest, and that from rotation alone.
    """
    names = ("distance", "pairs", "mean", "least", "largest")
    columns = [getattr(all_pairs, name).tolist() for name in names]
    if one_pair is not None:
        scores = dict(enumerate(one_pair.scores().tolist()))
        columns.append([scores.get(distance, "") for distance in columns[0]])
    return csv_table(
        [*names, *["one query and key, rotated"] * (one_pair is not None)],
        zip(*columns, strict=True),
    )


def tensors_npz(tensors: dict[str, Tensor]) -> bytes:
    """Return these tensors by name."""
    return npz_file({name: tensor.numpy() for name, tensor in tensors.items()})
