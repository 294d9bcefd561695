"""The cells that are drawn of one head: one a weight; of a long text one a block of weights, which has the largest of them, or one
a weight of a part."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.trace import AttentionSite, Trace
from viz_app.drawing.labels import Label, axes_labels
from viz_app.drawing.pooling import block_side, pooled_bits, pooled_weights
from viz_app.drawing.scale import Scale
from viz_app.drawing.sites import blocked_bits

LARGEST_WHOLE = 512  # tokens a side of a picture that has a cell for every weight
LARGEST_POOLED = 256  # blocks a side of one that has a cell for a block
TILE = 64  # tokens a side of an exact part

Tile = (
    tuple[int, int] | None
)  # a query and a key in the middle of an exact part; None for the whole text


@dataclass(frozen=True)
class Cells:
    """`weights`, (query, key), and what blocks them (`blocked_bits`), with a label a row and a column. A cell has the largest of
    `block` × `block` weights, and is blocked where all of them are; `first` is the query and the key where the picture begins.
    `largest` is of each row the largest of all its weights, where not all of them are there."""

    queries: list[Label]
    keys: list[Label]
    weights: np.ndarray
    blocked: np.ndarray
    block: int = 1
    first: tuple[int, int] = (0, 0)
    largest: np.ndarray | None = None

    def columns(self, keys: Sequence[int]) -> list[int]:
        """Those of the columns that are one of these keys, and nothing else."""
        places = [key - self.first[1] for key in keys] if self.block == 1 else []
        return [place for place in places if 0 <= place < self.weights.shape[1]]


def is_long(site: AttentionSite) -> bool:
    """Return True if its weights have more rows or columns than a picture has room for."""
    return block_of(site.n_query, site.n_key) > 1


def block_of(n_query: int, n_key: int) -> int:
    """How many tokens a side of a block has in a picture of these; 1 where there is room for every weight."""
    return block_side(n_query, n_key, LARGEST_POOLED) if max(n_query, n_key) > LARGEST_WHOLE else 1


def cells(
    trace: Trace, site: AttentionSite, head: int, tile: Tile = None, hidden: Sequence[int] = ()
) -> Cells:
    """What is drawn of a head, a part of a long text round `tile` or all of it; the keys that are `hidden` count for no largest
    weight."""
    if not is_long(site):
        return _exact(trace, site, head, slice(0, site.n_query), slice(0, site.n_key))
    if tile is None:
        return _blocks(trace, site, head, hidden)
    rows, columns = around(site, tile)
    weights = site.weights(head, rows=rows).numpy()
    return _exact(
        trace, site, head, rows, columns, np.delete(weights, list(hidden), 1).max(1, initial=0)
    )


def _exact(
    trace: Trace,
    site: AttentionSite,
    head: int,
    rows: slice,
    columns: slice,
    largest: np.ndarray | None = None,
) -> Cells:
    query, key = axes_labels(trace, site)
    weights = site.weights(head, rows=rows)[:, columns].numpy()
    blocked = blocked_bits(site, head, rows)[:, columns].numpy()
    return Cells(
        query[rows],
        key[columns],
        weights,
        blocked,
        first=(rows.start, columns.start),
        largest=largest,
    )


def _blocks(trace: Trace, site: AttentionSite, head: int, hidden: Sequence[int]) -> Cells:
    k = block_of(site.n_query, site.n_key)
    query, key = (in_blocks(row, k) for row in axes_labels(trace, site))
    largest = pooled_weights(site, head, k, hidden).numpy()
    bits = np.where(largest < 0, pooled_bits(site, head, k), 0).astype(np.uint8)
    return Cells(query, key, largest.clip(0), bits, k)


def around(site: AttentionSite, tile: tuple[int, int]) -> tuple[slice, slice]:
    """The queries and the keys of the part with this query and key in the middle; of a short text all."""
    if not is_long(site):
        return slice(0, site.n_query), slice(0, site.n_key)
    return _around(tile[0], site.n_query), _around(tile[1], site.n_key)


def _around(place: int, n: int) -> slice:
    """TILE tokens with this place in the middle, as far as there are so many on both sides of it."""
    start = max(0, min(place - TILE // 2, n - TILE))
    return slice(start, min(n, start + TILE))


def in_blocks(row: Sequence[Label], k: int) -> list[Label]:
    """A label for every k tokens: their places from 0, on hover the first and the last."""
    if k == 1:
        return list(row)
    ends = ((first, min(first + k, len(row)) - 1) for first in range(0, len(row), k))
    return [
        Label(f"{first}–{last}", f"from {row[first].text} to {row[last].text}")
        for first, last in ends
    ]


def strengths(drawn: Cells, scale: Scale, sinks: Sequence[int]) -> np.ndarray:
    """(query, key), 0 … 1: how strongly each cell is drawn; `sinks` are the keys that a scale may leave out."""
    return scale.strengths(drawn.weights, drawn.columns(sinks), drawn.largest)
