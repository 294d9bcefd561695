"""A long text's weights where there is no room for all: the largest of each block of cells, worked out some rows at a time, so
that they are never all there at once."""

import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from models.trace import AttentionSite
from viz_app.drawing.sites import blocked_bits

SLAB = 2**21     # weights of a long text worked out together; with fewer, q and k are worked out again more often


def block_side(n_query: int, n_key: int, side: int) -> int:
    """k such that a k × k block of cells becomes one cell of a picture of at most `side` × `side`; 1 shows every cell."""
    return max(1, math.ceil(max(n_query, n_key) / side))


def pooled(shown: Tensor, k: int) -> Tensor:
    """(…, query/k, key/k): the largest of each k × k block of weights (…, query, key) in which −1 is a masked cell; −1 where all
    of a block are masked."""
    return F.max_pool2d(shown, k, ceil_mode=True) if k > 1 else shown


def pooled_weights(site: AttentionSite, head: int, k: int, hidden: Sequence[int] = ()) -> Tensor:
    """The same of one head; the weights of `hidden` keys count as 0."""
    found = []
    for rows in slabs(site, k):
        shown = site.weights(head, rows=rows)
        shown[:, list(hidden)] = 0
        found.append(pooled(shown.masked_fill_(~site.allowed(head=head, rows=rows), -1.0)[None], k)[0])
    return torch.cat(found)


def pooled_bits(site: AttentionSite, head: int, k: int) -> np.ndarray:
    """(query/k, key/k) uint8: the mask layers that block any cell of a block, as in `blocked_bits`."""
    across = np.arange(0, site.n_key, k)
    found = []
    for rows in slabs(site, k):
        bits = blocked_bits(site, head, rows).numpy()
        bits = np.bitwise_or.reduceat(bits, np.arange(0, len(bits), k), axis=0)
        found.append(np.bitwise_or.reduceat(bits, across, axis=1))
    return np.concatenate(found)


def slabs(site: AttentionSite, k: int = 1) -> list[slice]:
    """All rows of a site in order, some at a time: whole blocks of k rows, at most SLAB weights where one fits."""
    step = k * max(1, SLAB // (k * site.n_key))
    return [slice(start, min(start + step, site.n_query)) for start in range(0, site.n_query, step)]
