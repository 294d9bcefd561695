"""The fixed offset that describes a head best, after Voita et al. (2019)."""

from typing import NamedTuple

import torch

from models.trace import AttentionSite


class BestOffset(NamedTuple):
    """An offset in tokens from query to key, and the mean weight that the head gives it."""

    offset: int
    weight: float


def best_offset(site: AttentionSite, head: int) -> BestOffset:
    """Return the offset from query to key to which a head of a run gives the most weight.

    The mean is over all queries; a query with no such key counts as 0. The nearest of equal ones
    wins.
    """
    weights = site.weights(head)
    n_query, n_key = weights.shape
    queries = torch.arange(site.mask.start, site.mask.start + n_query)
    offsets = (torch.arange(n_key) - queries[:, None]).flatten()
    lowest = int(offsets.min())
    sums = torch.zeros(int(offsets.max()) - lowest + 1).index_add(
        0, offsets - lowest, weights.flatten()
    )
    best = max(range(len(sums)), key=lambda i: (float(sums[i]), -abs(i + lowest)))
    return BestOffset(best + lowest, float(sums[best]) / n_query)
