"""One head: its exact weights, which mask blocks which cell, and the tokens on both axes. Of a long text the largest weight of
each block of cells, or the exact weights of a part."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.drawing.labels import Label, axes_labels, writes
from viz_app.drawing.payload import pack
from viz_app.drawing.pooling import block_side, pooled_bits, pooled_weights, slabs
from viz_app.drawing.provenance import head_name
from viz_app.drawing.scale import Scale, sinks
from viz_app.drawing.sites import blocked_bits
from viz_app.drawing.stamp import facts, saving

LARGEST_WHOLE = 512     # tokens a side of a picture that has a cell for every weight
LARGEST_POOLED = 256    # blocks a side of one that has a cell for a block
TILE = 64               # tokens a side of an exact part

Parts = tuple[dict[str, Any], dict[str, np.ndarray]]       # of a payload: fields of the header, arrays


def head(
    trace: Trace, site: AttentionSite, index: int, terms: words.Terms, lock: str = "",
    tile: tuple[int, int] | None = None, scale: Scale | None = None,
) -> bytes:
    """The payload of the head component. `lock` is "q3" or "k0" for a held query or key token, or empty. Of a long text `tile` is
    a query and a key in the middle of the exact part that is shown, None for all of it in blocks."""
    query_axis, key_axis = words.axes(site, terms, writes(trace, site))
    scale, hidden = scale or Scale(), sinks(trace.axes(site)[1])
    if max(site.n_query, site.n_key) <= LARGEST_WHOLE:
        part, arrays = _exact(trace, site, index, slice(0, site.n_query), slice(0, site.n_key))
    elif tile is None:
        part, arrays = _blocks(trace, site, index, hidden if scale.hides_sinks else ())
    else:
        part, arrays = _exact(trace, site, index, _around(tile[0], site.n_query), _around(tile[1], site.n_key))
        rows = site.weights(index, rows=slice(part["first"][0], part["first"][0] + TILE)).numpy()
        arrays["largest"] = np.delete(rows, hidden, 1).max(1, initial=0) if scale.hides_sinks else rows.max(1)
    names = axes_labels(trace, site)[1]
    header: dict[str, Any] = {
        "site": site.name, "head": index, "lock": lock,
        "title": words.head_title(site, index, terms),
        "queryAxis": query_axis, "keyAxis": key_axis, **part, "size": [site.n_query, site.n_key],
        "masks": [layer.name for layer in site.mask.layers], **saving(head_name(trace, site, index), facts(trace)),
        "scale": scale.name, "hides": scale.hides_sinks, "sinks": hidden,
        "sinkNames": [names[i].text for i in hidden], "sinkShare": _share(site, index, hidden),
    }
    return pack(header, **arrays)


def _exact(trace: Trace, site: AttentionSite, head: int, rows: slice, cols: slice) -> Parts:
    query, key = axes_labels(trace, site)
    part = {"queries": _json(query[rows]), "keys": _json(key[cols]), "block": 1, "first": [rows.start, cols.start]}
    weights = site.weights(head, rows=rows)[:, cols]
    return part, {"weights": weights.numpy(), "blocked": blocked_bits(site, head, rows)[:, cols].numpy()}


def _blocks(trace: Trace, site: AttentionSite, head: int, hidden: Sequence[int]) -> Parts:
    """The largest weight of each block; a cell is blocked where all of its block is."""
    k = block_side(site.n_query, site.n_key, LARGEST_POOLED)
    query, key = (_json(_ranges(row, k)) for row in axes_labels(trace, site))
    largest = pooled_weights(site, head, k, hidden).numpy()
    bits = np.where(largest < 0, pooled_bits(site, head, k), 0).astype(np.uint8)
    part = {"queries": query, "keys": key, "block": k, "first": [0, 0]}
    return part, {"weights": largest.clip(0), "blocked": bits}


def _around(place: int, n: int) -> slice:
    """TILE tokens with this place in the middle, as far as there are so many on both sides of it."""
    start = max(0, min(place - TILE // 2, n - TILE))
    return slice(start, min(n, start + TILE))


def _ranges(row: Sequence[Label], k: int) -> list[Label]:
    """A label for every k tokens: their places from 0, on hover the first and the last."""
    ends = ((first, min(first + k, len(row)) - 1) for first in range(0, len(row), k))
    return [Label(f"{first}–{last}", f"from {row[first].text} to {row[last].text}") for first, last in ends]


def _json(row: Sequence[Label]) -> list[list]:
    return [label.as_json() for label in row]


def _share(site: AttentionSite, head: int, keys: list[int]) -> float:
    """The weight that these keys get together, on average over the queries."""
    if not keys:
        return 0.0
    return sum(float(site.weights(head, rows=rows)[:, keys].sum()) for rows in slabs(site)) / site.n_query
