"""A long text's weights where there is no room for all: the largest of each block of cells, worked out some rows at a time, so
that they are never all there at once."""

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

SLAB = (
    2**17
)  # weights of a long text worked out together: few stay near the processor, and rows that look back meet few keys


def block_side(n_query: int, n_key: int, side: int) -> int:
    """k such that a k × k block of cells becomes one cell of a picture of at most `side` × `side`; 1 shows every cell."""
    return max(1, math.ceil(max(n_query, n_key) / side))


def pooled(shown: Tensor, k: int) -> Tensor:
    """(…, query/k, key/k): the largest of each k × k block of weights (…, query, key) in which −1 is a masked cell; −1 where all
    of a block are masked."""
    if k == 1:
        return shown
    n_query, n_key = shown.shape[-2:]
    if n_query % k or n_key % k:
        shown = F.pad(shown, (0, -n_key % k, 0, -n_query % k), value=-torch.inf)
    return shown.unflatten(-2, (-1, k)).amax(-2).unflatten(-1, (-1, k)).amax(-1)


def pooled_weights(site: AttentionSite, head: int, k: int, hidden: Sequence[int] = ()) -> Tensor:
    """The same of one head; the weights of `hidden` keys count as 0."""
    return pooled_heads(site, [head], k, hidden)[0]


def pooled_heads(
    site: AttentionSite, heads: Sequence[int], k: int, hidden: Sequence[int] = ()
) -> Tensor:
    """The same of several heads, (head, query/k, key/k)."""
    site, found = site.read("q", "k"), []
    shared = site.mask.allowed is None or site.mask.allowed.shape[1] == 1
    for rows in slabs(site, k):
        masks = [_Masked.of(site, head, rows, k) for head in (heads[:1] if shared else heads)]
        found.append(
            torch.stack(
                [
                    masks[0 if shared else i].pooled(site, head, rows, k, hidden)
                    for i, head in enumerate(heads)
                ]
            )
        )
    return torch.cat(found, 1)


@dataclass(frozen=True)
class _Masked:
    """The mask of some rows: what is added to the scores of the keys up to the last that one of them may see, and which blocks of
    cells are closed altogether."""

    added: Float[Tensor, "query seen"]
    closed: Bool[Tensor, "query/k key/k"]

    @classmethod
    def of(cls, site: AttentionSite, head: int, rows: slice, k: int) -> _Masked:
        allowed = site.allowed(head=head, rows=rows)
        added = torch.zeros(allowed.shape).masked_fill_(~allowed, -torch.inf)
        seen = (added.amax(0) == 0).nonzero()
        return cls(added[:, : int(seen[-1]) + 1 if len(seen) else 0], pooled(added, k) < 0)

    def pooled(
        self, site: AttentionSite, head: int, rows: slice, k: int, hidden: Sequence[int]
    ) -> Tensor:
        """The largest weight of each block of one head; −1 where it is closed."""
        n_seen, largest = self.added.shape[1], torch.zeros(self.closed.shape)
        if n_seen:
            weights = self._weights(site, head, rows, n_seen)
            weights[:, [key for key in hidden if key < n_seen]] = 0
            own = pooled(weights, k)
            largest[:, : own.shape[1]] = own
        return largest.masked_fill_(self.closed, -1.0)

    def _weights(self, site: AttentionSite, head: int, rows: slice, n_seen: int) -> Tensor:
        """As in AttentionSite.weights, where a row with nothing allowed is all zeros."""
        if not site.has_causes:
            return site.weights(head, rows=rows)[:, :n_seen].clone()
        weights = site.scores(head, rows=rows, n_key=n_seen).add_(self.added).softmax(-1)
        return weights.masked_fill_((self.added.amax(-1) < 0)[:, None], 0.0)


def pooled_bits(site: AttentionSite, head: int, k: int) -> np.ndarray:
    """(query/k, key/k) uint8: the mask layers that block any cell of a block, as in `blocked_bits`."""
    across = np.arange(0, site.n_key, k)
    found = []
    for rows in slabs(site, k):
        bits = blocked_bits(site, head, rows).numpy()
        bits = np.bitwise_or.reduceat(bits, np.arange(0, len(bits), k), axis=0)
        found.append(np.bitwise_or.reduceat(bits, across, axis=1))
    return np.concatenate(found)


def slabs(site: AttentionSite, k: int = 1, heads: int = 1) -> list[slice]:
    """All rows of a site in order, some at a time: whole blocks of k rows, of so many heads together at most SLAB weights where one
    block fits."""
    step = k * max(1, SLAB // (k * site.n_key * heads))
    return [slice(start, min(start + step, site.n_query)) for start in range(0, site.n_query, step)]
