"""What is drawn of a mask and of a head under it: every cell; of a long text the largest of each block of cells, or every cell
of the part round a place."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from models.layers.masks import Mask
from models.trace import AttentionSite
from viz_app.drawing.cells import Tile, around, block_of, in_blocks
from viz_app.drawing.labels import Label
from viz_app.drawing.pooling import pooled, pooled_weights, slabs
from viz_app.views.masks.mask_view import alone


@dataclass(frozen=True)
class Part:
    """Rows and columns of a site's cells; `block` × `block` of them are one cell of the picture."""

    site: AttentionSite
    rows: slice
    columns: slice
    block: int

    @classmethod
    def of(cls, site: AttentionSite, tile: Tile) -> "Part":
        """Round `tile`, or all of it."""
        if tile is None:
            return cls(
                site,
                slice(0, site.n_query),
                slice(0, site.n_key),
                block_of(site.n_query, site.n_key),
            )
        return cls(site, *around(site, tile), 1)

    def header(self, queries: Sequence[Label], keys: Sequence[Label]) -> dict[str, Any]:
        """What the painter is told of the axes."""
        rows, columns = (
            in_blocks(queries[self.rows], self.block),
            in_blocks(keys[self.columns], self.block),
        )
        return {
            "queries": [label.as_json() for label in rows],
            "keys": [label.as_json() for label in columns],
            "block": self.block,
            "first": [self.rows.start, self.columns.start],
            "size": [self.site.n_query, self.site.n_key],
        }

    def blocked(self, mask: Mask) -> np.ndarray:
        """(query, key) uint8: bit i set where the i-th layer (of at most 8) blocks the cell; 0 = open. A block is open where any
        of its cells is."""
        if self.block == 1:
            return self._bits(mask, self.rows)[:, self.columns]
        found = []
        for rows in slabs(self.site, self.block):
            bits = self._bits(mask, rows)
            found.append(
                np.where(
                    _in_blocks(np.logical_and, bits > 0, self.block),
                    _in_blocks(np.bitwise_or, bits, self.block),
                    0,
                )
            )
        return np.concatenate(found).astype(np.uint8)

    def weights(self, site: AttentionSite, head: int) -> tuple[np.ndarray, np.ndarray]:
        """One head's weights under the masks of a site like this one, and (uint8) where they are blocked."""
        if self.block > 1:
            found = pooled_weights(site, head, self.block).numpy()
            return found.clip(0), (found < 0).astype(np.uint8)
        is_open = site.allowed(head=head, rows=self.rows)[:, self.columns]
        return self._exact(site, head).numpy(), (~is_open).numpy().astype(np.uint8)

    def difference(self, before: AttentionSite, after: AttentionSite, head: int) -> np.ndarray:
        """After − before; of a block the one furthest from 0. Exactly 0 of one run with itself, whose weights, worked out twice,
        may differ in their last digit."""
        if before is after:
            return np.zeros_like(self.weights(after, head)[0])
        if self.block == 1:
            return (self._exact(after, head) - self._exact(before, head)).numpy()
        before, after, found = before.read("q", "k"), after.read("q", "k"), []
        for rows in slabs(self.site, self.block):
            change = after.weights(head, rows=rows) - before.weights(head, rows=rows)
            up, down = pooled(change, self.block), pooled(-change, self.block)
            found.append(np.where(up >= down, up, -down))
        return np.concatenate(found)

    def _exact(self, site: AttentionSite, head: int) -> Tensor:
        return site.weights(head, rows=self.rows)[:, self.columns]

    def _bits(self, mask: Mask, rows: slice) -> np.ndarray:
        bits = np.zeros((rows.stop - rows.start, self.site.n_key), np.uint8)
        for i, layer in enumerate(mask.layers[:8]):
            bits |= (~alone(layer, self.site.n_query, self.site.n_key)[rows]).numpy().astype(
                np.uint8
            ) << i
        return bits


def open_blocks(allowed: Tensor, k: int) -> np.ndarray:
    """(query/k, key/k) uint8: 1 where any cell of a k × k block is open."""
    return _in_blocks(np.logical_or, allowed.numpy(), k).astype(np.uint8)


def _in_blocks(joined: np.ufunc, cells: np.ndarray, k: int) -> np.ndarray:
    """What `joined` makes of each k × k block; the last ones may be smaller."""
    rows = joined.reduceat(cells, np.arange(0, len(cells), k), axis=0)
    return joined.reduceat(rows, np.arange(0, cells.shape[1], k), axis=1)
