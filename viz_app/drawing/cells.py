"""The cells drawn for one head: single weights, or for a long text blocks or an exact part.

A block is drawn as the largest of its weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.trace import AttentionSite, Trace
from viz_app.drawing.labels import Label, axes_labels
from viz_app.drawing.pooling import block_side, pooled_bits, pooled_weights
from viz_app.drawing.scale import Scale
from viz_app.drawing.sites import blocked_bits

MAX_WHOLE_TOKENS = 512  # tokens a side of a picture that has a cell for every weight
MAX_POOLED_BLOCKS = 256  # blocks a side of a picture that has a cell for every block
TILE_SIDE = 64  # tokens a side of an exact part

Tile = tuple[int, int] | None  # (query, key) at the centre of an exact part; None: the whole text


@dataclass(frozen=True)
class Cells:
    """A drawn matrix: `weights` (query, key), the masks that block them, and the axis labels.

    `blocked` is coded as in `blocked_bits`. A cell shows the largest of `block` × `block` weights
    and is blocked where all of them are. `first` is the (query, key) of the top left cell.
    `largest` holds the largest weight of each whole row, for a part that does not show whole rows.
    """

    queries: list[Label]
    keys: list[Label]
    weights: np.ndarray
    blocked: np.ndarray
    block: int = 1
    first: tuple[int, int] = (0, 0)
    largest: np.ndarray | None = None

    def columns(self, keys: Sequence[int]) -> list[int]:
        """Return the columns that show exactly one of these keys; empty for a picture of blocks."""
        columns = [key - self.first[1] for key in keys] if self.block == 1 else []
        return [column for column in columns if 0 <= column < self.weights.shape[1]]


def has_many_cells(site: AttentionSite) -> bool:
    """Return True if the site has too many rows or columns to draw a cell for every weight."""
    return block_of(site.n_query, site.n_key) > 1


def block_of(n_query: int, n_key: int) -> int:
    """Return the side of a block in tokens; 1 where every weight has a cell of its own."""
    return (
        block_side(n_query, n_key, MAX_POOLED_BLOCKS)
        if max(n_query, n_key) > MAX_WHOLE_TOKENS
        else 1
    )


def cells(
    trace: Trace, site: AttentionSite, head: int, tile: Tile = None, hidden: Sequence[int] = ()
) -> Cells:
    """Return the cells of a head: the whole text, or the exact part of a long text around `tile`.

    The weights of `hidden` keys do not count towards any largest weight.
    """
    if not has_many_cells(site):
        return _exact(trace, site, head, slice(0, site.n_query), slice(0, site.n_key))
    if tile is None:
        return _blocks(trace, site, head, hidden)
    rows, columns = part_around(site, tile)
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


def part_around(site: AttentionSite, tile: tuple[int, int]) -> tuple[slice, slice]:
    """Return the queries and keys of the part around (query, key); all of them for a short text."""
    if not has_many_cells(site):
        return slice(0, site.n_query), slice(0, site.n_key)
    return _around(tile[0], site.n_query), _around(tile[1], site.n_key)


def _around(position: int, n: int) -> slice:
    """Return up to TILE_SIDE tokens around a position, shifted where the text begins or ends."""
    start = max(0, min(position - TILE_SIDE // 2, n - TILE_SIDE))
    return slice(start, min(n, start + TILE_SIDE))


def in_blocks(row: Sequence[Label], k: int) -> list[Label]:
    """Return a label for every k tokens: the range of positions from 0, the tokens on hover."""
    if k == 1:
        return list(row)
    ends = ((first, min(first + k, len(row)) - 1) for first in range(0, len(row), k))
    return [
        Label(f"{first}–{last}", f"from {row[first].text} to {row[last].text}")
        for first, last in ends
    ]


def strengths(cells: Cells, scale: Scale, sinks: Sequence[int]) -> np.ndarray:
    """Return (query, key) values in 0 … 1: the colour strength of each cell.

    `sinks` are the keys that a scale may leave out.
    """
    return scale.strengths(cells.weights, cells.columns(sinks), cells.largest)
