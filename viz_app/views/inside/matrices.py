"""One head as matrix products: each matrix once, between its equations (matrix_equations.py).

Rows: Q = X·W_Q, A = Q·Kᵀ/√d_k, B = Â·V.
Columns, as in the lecture: Q = W^Q·I, A = Kᵀ·Q/√d_k, B = V·Â.

The numbers are the same; the component transposes. Another similarity has other equations for A; an
RNN's alignment begins with its states.
"""

from typing import Any

import torch
from torch import Tensor

from models.analysis import head_walk
from models.analysis.score_terms import compared_vectors
from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.drawing.cells import has_many_cells, part_around
from viz_app.drawing.extent import OWN_EXTENT, Extent, widen_scales
from viz_app.drawing.labels import axes_labels
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import head_name
from viz_app.drawing.sites import blocked_bits
from viz_app.drawing.stamp import facts, saving
from viz_app.drawing.weight_cell import WeightCell
from viz_app.views.inside.matrix_equations import equations, has_bias, reads_itself
from viz_app.views.inside.named_terms import CONTENT_TERM


def matrices(
    trace: Trace,
    cell: WeightCell,
    terms: words.Terms,
    convention: str = "rows",
    extent: Extent = OWN_EXTENT,
) -> bytes:
    """Return the payload of the component `matrices`, whose scales cover `extent`.

    Raises:
        ValueError: the convention is neither rows nor columns.
    """
    if convention not in ("rows", "columns"):
        raise ValueError(f"convention must be rows or columns, not {convention!r}")
    site, head, values = cell.site, cell.head, numbers(cell)
    rows, columns = part = part_around(site, (cell.query, cell.key))
    if is_shared := reads_itself(site) and rows == columns:
        del values["memory"]  # the same vectors as x, sent once
    extents = {name: float(v.abs().max()) for name, v in values.items()}
    query, key = (row[shown] for row, shown in zip(axes_labels(trace, site), part, strict=True))
    header: dict[str, Any] = {
        "site": site.name,
        "head": head,
        "query": cell.query - rows.start,
        "key": cell.key - columns.start,
        "first": [rows.start, columns.start],
        "part": _part(site, rows, columns),
        "convention": convention,
        "title": f"{words.head_title(site, head, terms)}, as matrices",
        **saving(head_name(trace, site, head, convention), facts(trace)),
        "tokens": {
            "query": [label.as_json() for label in query],
            "key": [label.as_json() for label in key],
        },
        "masks": [layer.name for layer in site.mask.layers],
        "extent": extents,
        "matrices": _matrices(site, values, widen_scales(extents, extent)),
        "equations": equations(site, convention, is_shared),
    }
    blocked = blocked_bits(site, head, rows)[:, columns].contiguous()
    return pack(
        header,
        blocked=blocked.numpy(),
        **{name: v.contiguous().numpy() for name, v in values.items()},
    )


def _part(site: AttentionSite, rows: slice, columns: slice) -> str:
    """Return which part of a long text is shown; "" if the whole text is."""
    if not has_many_cells(site):
        return ""
    queries = f"queries {rows.start} to {rows.stop - 1} of {site.n_query}"
    keys = f"keys {columns.start} to {columns.stop - 1} of {site.n_key}"
    return f"Round the chosen weight: {queries} and {keys}. The softmax and the mixture of the values are over all keys."


def numbers(cell: WeightCell) -> dict[str, Tensor]:
    """Return every matrix of the head, with a row for each token.

    They are x, memory, W_Q … W_O (the head's blocks), q, k, v, scores, weights, b, added, the
    similarity's parameters, and the compared forms of q and k (compared_q, compared_k). An
    alignment has no x, memory and v (they are its q, k and k), no projections and nothing added. Of
    a long text it is the part around the chosen weight.
    """
    site, head = cell.site, cell.head
    rows, columns = part_around(site, (cell.query, cell.key))
    q, k, b = site.q[0, head, rows], site.k[0, head, columns], site.head_out(head, rows=rows)
    scores, weights = (read(head, rows=rows)[:, columns] for read in (site.scores, site.weights))
    arrays = {"q": q, "k": k, "scores": scores, "weights": weights, "b": b}
    if site.terms:
        queries = torch.arange(site.n_query)[rows]
        arrays |= {CONTENT_TERM: site.similarity(q, k)}
        arrays |= {
            term.name: term.scores(head, queries, site.n_key)[:, columns] for term in site.terms
        }
    if site.similarity.name not in ("dot", "scaled dot"):
        compared = dict(
            zip(("compared_q", "compared_k"), compared_vectors(site.similarity, q, k), strict=True)
        )
        arrays |= compared | {
            f"learned_{name}": value for name, value in site.similarity.learned.items()
        }
    if words.is_alignment(site):
        return arrays
    blocks = {
        name: head_walk.head_projection(site, name, head)[0]
        for name in ("W_Q", "W_K", "W_V", "W_O")
    }
    return (
        arrays
        | blocks
        | {
            "x": site.x[0, rows],
            "memory": site.memory[0, columns],
            "v": site.v[0, head, columns],
            "added": b @ blocks["W_O"],
        }
    )


def _matrices(
    site: AttentionSite, values: dict[str, Tensor], peak: Extent
) -> dict[str, dict[str, Any]]:
    """Return, for each matrix, its array, shape, axes, colour scale and description.

    `peak` holds the largest magnitude of each array.
    """

    def scale(*names: str) -> float:
        return max(peak.get(name, 0.0) for name in names)

    rows, key_rows, alignment = "query", "key", words.is_alignment(site)
    projections, score = ("W_Q", "W_K", "W_V"), words.formula(site)
    origins = (
        {"q": "", "k": ""}
        if alignment
        else {
            n: f"row of the tokens · column of W_{n.upper()}{', + bias' * has_bias(site, n.upper())}"
            for n in "qkv"
        }
    )
    parts = [CONTENT_TERM, *(term.name for term in site.terms)] if site.terms else []
    descriptions = {
        "x": ("token vectors", (rows, "number"), scale("x", "memory"), ""),
        "memory": (
            "vectors of the key tokens",
            (key_rows, "number"),
            scale("x", "memory"),
            "",
        ),
        **{
            n: (f"weights {n} of this head", ("input", "number"), scale(*projections), "learned")
            for n in projections
        },
        "W_O": ("weights W_O of this head", ("number", "output"), scale("W_O"), "learned"),
        "q": (
            "states before each step" if alignment else "queries",
            (rows, "number"),
            scale("q", "k"),
            origins["q"],
        ),
        "k": (
            "states of the encoder" if alignment else "keys",
            (key_rows, "number"),
            scale("q", "k"),
            origins["k"],
        ),
        "v": ("values", (key_rows, "number"), scale("v", "b"), origins.get("v", "")),
        "learned_M": (
            "weights M of the similarity",
            ("input", "number"),
            scale("learned_M"),
            "learned",
        ),
        "learned_W": (
            "weights W of the similarity",
            ("number", "input"),
            scale("learned_W", "learned_U"),
            "learned",
        ),
        "learned_U": (
            "weights U of the similarity",
            ("number", "input"),
            scale("learned_W", "learned_U"),
            "learned",
        ),
        "compared_q": (
            "queries as they are compared",
            (rows, "number"),
            scale("compared_q", "compared_k"),
            "",
        ),
        "compared_k": (
            "keys as they are compared",
            (key_rows, "number"),
            scale("compared_q", "compared_k"),
            "",
        ),
        **{
            name: (f"{name} term of the score", (rows, key_rows), scale("scores", *parts), "")
            for name in parts
        },
        "scores": ("score before the mask", (rows, key_rows), scale("scores", *parts), score),
        "weights": ("weight", (rows, key_rows), 1.0, "softmax over the keys"),
        "b": (
            "context" if alignment else "output of the head",
            (rows, "number"),
            scale("v", "b"),
            "weights · values",
        ),
        "added": ("head's part of the output", (rows, "number"), scale("added"), "b · W_O"),
    }
    return {
        name: {
            "array": name,
            "shape": list(values[name].shape),
            "says": says,
            "axes": list(axes),
            "scale": scale_of,
            "made": how,
            "weights": name == "weights",
            "masked": name == "weights",
            "pick": name in ("scores", "weights", *parts),
        }
        for name, (says, axes, scale_of, how) in descriptions.items()
        if name in values
    }
