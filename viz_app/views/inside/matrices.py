"""One head as matrix products: each matrix once, between its equations (matrix_equations.py).

Rows: Q = X·W_Q, A = Q·Kᵀ/√d_k, B = Â·V.
Columns, as in the lecture: Q = W^Q·I, A = Kᵀ·Q/√d_k, B = V·Â.

The numbers are the same; the component transposes. Another similarity has other equations for A; an
RNN's alignment begins with its states.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

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
    query, key = (row[indices] for row, indices in zip(axes_labels(trace, site), part, strict=True))
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
    return f"Around the chosen weight: {queries} and {keys}. The softmax and the mixture of the values are over all keys."


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
    terms = [CONTENT_TERM, *(term.name for term in site.terms)] if site.terms else []
    scores = ("scores", *terms)
    described = _VECTORS | _projections(site) | _OF_SIMILARITY | _results(site, terms)

    def scale(name: str) -> float:
        if name == "weights":
            return 1.0
        names = next((group for group in (*_ON_ONE_SCALE, scores) if name in group), (name,))
        return max(peak.get(one, 0.0) for one in names)

    return {
        name: {
            "array": name,
            "shape": list(values[name].shape),
            "says": matrix.title,
            "axes": list(matrix.axes),
            "scale": scale(name),
            "made": matrix.origin,
            "weights": name == "weights",
            "masked": name == "weights",
            "pick": name in ("weights", *scores),
        }
        for name, matrix in described.items()
        if name in values
    }


class _Matrix(NamedTuple):
    title: str
    axes: tuple[str, str]
    origin: str = ""


_QUERIES, _KEYS = "query", "key"  # axes that count tokens
_ON_ONE_SCALE = (
    ("x", "memory"), ("W_Q", "W_K", "W_V"), ("q", "k"), ("v", "b"), ("learned_W", "learned_U"), ("compared_q", "compared_k"),
)  # fmt: skip
_VECTORS = {
    "x": _Matrix("token vectors", (_QUERIES, "number")),
    "memory": _Matrix("vectors of the key tokens", (_KEYS, "number")),
}
_OF_SIMILARITY = {
    "learned_M": _Matrix("weights M of the similarity", ("input", "number"), "learned"),
    "learned_W": _Matrix("weights W of the similarity", ("number", "input"), "learned"),
    "learned_U": _Matrix("weights U of the similarity", ("number", "input"), "learned"),
    "compared_q": _Matrix("queries as they are compared", (_QUERIES, "number")),
    "compared_k": _Matrix("keys as they are compared", (_KEYS, "number")),
}


def _projections(site: AttentionSite) -> dict[str, _Matrix]:
    """Describe the head's weights, and the queries, keys and values that they make."""
    weights = {
        name: _Matrix(f"weights {name} of this head", axes, "learned")
        for name, axes in (
            ("W_Q", ("input", "number")),
            ("W_K", ("input", "number")),
            ("W_V", ("input", "number")),
            ("W_O", ("number", "output")),
        )
    }
    if words.is_alignment(site):
        return weights | {
            "q": _Matrix("states before each step", (_QUERIES, "number")),
            "k": _Matrix("states of the encoder", (_KEYS, "number")),
        }
    return weights | {
        name: _Matrix(
            title,
            (axis, "number"),
            f"row of the tokens · column of W_{name.upper()}{', + bias' * has_bias(site, name.upper())}",
        )
        for name, title, axis in (
            ("q", "queries", _QUERIES),
            ("k", "keys", _KEYS),
            ("v", "values", _KEYS),
        )
    }


def _results(site: AttentionSite, terms: Sequence[str]) -> dict[str, _Matrix]:
    """Describe the scores, their terms, the weights, and the head's output."""
    output = "context" if words.is_alignment(site) else "output of the head"
    is_set = ", unless an edit sets it" if site.edits_weights else ""
    is_changed = ", unless an edit changes it" * words.edits_mixture(site)
    return {
        **{name: _Matrix(f"{name} term of the score", (_QUERIES, _KEYS)) for name in terms},
        "scores": _Matrix("score before the mask", (_QUERIES, _KEYS), words.formula(site)),
        "weights": _Matrix("weight", (_QUERIES, _KEYS), f"softmax over the keys{is_set}"),
        "b": _Matrix(output, (_QUERIES, "number"), f"weights · values{is_changed}"),
        "added": _Matrix("head's part of the output", (_QUERIES, "number"), "b · W_O"),
    }
