"""By what somebody else's model tells the order of its tokens, measured in one run of a row of equal tokens.

Without anything that tells places apart, every position of such a row has the same vector, the same query, key and value, and
shares its attention evenly among the keys that it may read. What is not the same names what tells the order."""

from __future__ import annotations

import torch
from torch import Tensor

from models.analysis.checks import rounding_in
from models.architectures.base import BY_MASK, BY_SCORES, BY_TURNING, BY_VECTORS, UNSEEN
from models.hub.model import HubModel
from models.trace import AttentionSite, record

LENGTH = 7  # tokens of the row


@torch.no_grad()
def told_by(model: HubModel) -> str:
    """One of the ways in models.architectures.base; UNSEEN where weights differ and their library does not hand out why."""
    if model.positions is not None:
        return BY_VECTORS
    config = model.config
    token = next(i for i in range(config.vocab_size) if i not in (config.fill_id, config.end_id))
    ids = torch.full((1, min(LENGTH, config.n_ctx)), token, device=model.device)
    with record() as recording:
        model(*model.repeated(ids))
    sites = [s for s in recording.attention.values() if s.kind == model.kinds[0].name]
    close = rounding_in(model.module.dtype)
    known = [site for site in sites if site.has_causes]
    if any(not _equal(site.v, 2, close) for site in known):
        return BY_VECTORS
    if any(not _equal(part, 2, close) for site in known for part in (site.q, site.k)):
        return BY_TURNING
    if any(_varies(site, close) for site in known):
        return BY_SCORES
    return UNSEEN if any(_uneven(site, close) for site in sites) else BY_MASK


def _equal(values: Tensor, axis: int, close: float) -> bool:
    """Return True if values are the same along an axis but for rounding."""
    apart = (values - values.narrow(axis, 0, 1)).abs().max()
    return float(apart) <= 10 * close * max(1.0, float(values.abs().max()))


def _varies(site: AttentionSite, close: float) -> bool:
    """Return True if what is added to the scores differs from key to key."""
    rows = torch.arange(site.n_query)
    return any(
        not _equal(term.scores(None, rows, site.n_key).float(), -1, close) for term in site.terms
    )


def _uneven(site: AttentionSite, close: float) -> bool:
    """Return True if a query prefers one of the keys that it reads."""
    weights = site.weights().float()
    most, reads = weights.amax(-1), weights > 0
    least = weights.masked_fill(~reads, torch.inf).amin(-1)
    return bool((most - least > 10 * close).any())
