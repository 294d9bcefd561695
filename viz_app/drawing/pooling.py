"""Block maxima of a long text's weights, computed some rows at a time to bound memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from models.trace import AttentionSite
from viz_app.drawing.sites import blocked_bits

# weights computed together: few enough for the CPU cache, and causal rows skip most of their keys
SLAB = 2**17


def block_side(n_query: int, n_key: int, side: int) -> int:
    """Return the smallest k for which blocks of k × k cells fit into `side` × `side`."""
    return max(1, math.ceil(max(n_query, n_key) / side))


def pooled(values: Tensor, k: int) -> Tensor:
    """Return the largest weight of each k × k block, (…, query/k, key/k).

    In the weights (…, query, key) a masked cell is −1; a block is −1 if all its cells are.
    """
    if k == 1:
        return values
    n_query, n_key = values.shape[-2:]
    if n_query % k or n_key % k:
        values = F.pad(values, (0, -n_key % k, 0, -n_query % k), value=-torch.inf)
    return values.unflatten(-2, (-1, k)).amax(-2).unflatten(-1, (-1, k)).amax(-1)


def pooled_weights(site: AttentionSite, head: int, k: int, hidden: Sequence[int] = ()) -> Tensor:
    """Return `pooled` of one head, with the weights of `hidden` keys counted as 0."""
    return pooled_heads(site, [head], k, hidden)[0]


def pooled_heads(
    site: AttentionSite, heads: Sequence[int], k: int, hidden: Sequence[int] = ()
) -> Tensor:
    """Return `pooled` of several heads, (head, query/k, key/k); `hidden` as in `pooled_weights`."""
    site, slab_maxima = site.read("q", "k"), []
    shared = site.mask.allowed is None or site.mask.allowed.shape[1] == 1
    for rows in slabs(site, k):
        masks = [_Masked.of(site, head, rows, k) for head in (heads[:1] if shared else heads)]
        slab_maxima.append(
            torch.stack(
                [
                    masks[0 if shared else i].pooled(site, head, rows, k, hidden)
                    for i, head in enumerate(heads)
                ]
            )
        )
    return torch.cat(slab_maxima, 1)


@dataclass(frozen=True)
class _Masked:
    """The mask of some rows.

    `added` is added to the scores, up to the last key that any row may read; `closed` marks blocks
    whose cells are all masked.
    """

    added: Float[Tensor, "query seen"]
    closed: Bool[Tensor, "query/k key/k"]

    @classmethod
    def of(cls, site: AttentionSite, head: int, rows: slice, k: int) -> _Masked:
        allowed = site.allowed(head=head, rows=rows)
        added = torch.zeros(allowed.shape).masked_fill_(~allowed, -torch.inf)
        is_blank = (added.amax(0) == 0).nonzero()
        return cls(added[:, : int(is_blank[-1]) + 1 if len(is_blank) else 0], pooled(added, k) < 0)

    def pooled(
        self, site: AttentionSite, head: int, rows: slice, k: int, hidden: Sequence[int]
    ) -> Tensor:
        """Return the largest weight of each block of one head; −1 where the block is closed."""
        n_seen, largest = self.added.shape[1], torch.zeros(self.closed.shape)
        if n_seen:
            weights = self._weights(site, head, rows, n_seen)
            weights[:, [key for key in hidden if key < n_seen]] = 0
            maxima = pooled(weights, k)
            largest[:, : maxima.shape[1]] = maxima
        return largest.masked_fill_(self.closed, -1.0)

    def _weights(self, site: AttentionSite, head: int, rows: slice, n_seen: int) -> Tensor:
        """Return the weights of these rows as AttentionSite.weights does.

        A fully masked row is all zeros.
        """
        if not site.has_causes or site.edits_weights:
            return site.weights(head, rows=rows)[:, :n_seen].clone()
        weights = site.scores(head, rows=rows, n_key=n_seen).add_(self.added).softmax(-1)
        return weights.masked_fill_((self.added.amax(-1) < 0)[:, None], 0.0)


def pooled_bits(site: AttentionSite, head: int, k: int) -> np.ndarray:
    """Return (query/k, key/k) uint8: the mask layers that block any cell of a block.

    The bits are those of `blocked_bits`.
    """
    across = np.arange(0, site.n_key, k)
    slab_bits = []
    for rows in slabs(site, k):
        bits = blocked_bits(site, head, rows).numpy()
        bits = np.bitwise_or.reduceat(bits, np.arange(0, len(bits), k), axis=0)
        slab_bits.append(np.bitwise_or.reduceat(bits, across, axis=1))
    return np.concatenate(slab_bits)


def slabs(site: AttentionSite, k: int = 1, heads: int = 1) -> list[slice]:
    """Split the rows of a site into slices of whole blocks of k rows.

    A slice of `heads` heads has at most SLAB weights, unless a single block of rows exceeds that.
    """
    step = k * max(1, SLAB // (k * site.n_key * heads))
    return [slice(start, min(start + step, site.n_query)) for start in range(0, site.n_query, step)]
