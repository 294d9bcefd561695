"""The attention sites of a trace as a page lists them: by kind, in order of layers."""

from itertools import groupby

import torch
from torch import Tensor

from models.layers.masks import ROLES
from models.trace import AttentionSite, Trace
from models.trace.site import Rows

MOST_ROWS = 256  # of a head that are looked at to find the sharpest


def by_kind(trace: Trace) -> list[tuple[str, list[AttentionSite]]]:
    """(kind, its sites from the first layer to the last), kinds in the order encoder, decoder, cross."""
    order = list(dict.fromkeys(site.kind for site in sorted(trace.attention.values(), key=_place)))
    sites = sorted(trace.attention.values(), key=lambda site: (order.index(site.kind), site.layer))
    return [(kind, list(group)) for kind, group in groupby(sites, key=lambda site: site.kind)]


def _place(site: AttentionSite) -> tuple[bool, int]:
    """Encoder before decoder, self-attention before cross-attention."""
    return site.stack != "encoder", ROLES.index(site.role) if site.role in ROLES else len(ROLES)


def blocked_bits(site: AttentionSite, head: int = 0, rows: Rows = None) -> Tensor:
    """(query, key) uint8: bit i set where the i-th mask layer (of at most 8) blocks the cell; 0 = open. Of all queries or of a
    slice."""
    whole = torch.zeros((), dtype=torch.uint8).expand(site.n_query, site.n_key)
    bits = whole[rows or slice(None)].clone()
    for i, layer in enumerate(site.mask.layers[:8]):
        allowed = layer.allowed[0, min(head, layer.allowed.shape[1] - 1)].expand(
            site.n_query, site.n_key
        )
        bits |= (~allowed[rows or slice(None)]).to(torch.uint8) << i
    return bits


def sharpest_head(trace: Trace, kind: str = "cross") -> tuple[str, int]:
    """(site name, head) of the head whose rows are on average most decided: a good first picture."""
    sites = [s for s in trace.attention.values() if s.kind == kind] or list(
        trace.attention.values()
    )
    decided = [
        (float(mean), site.name, head) for site in sites for head, mean in enumerate(_decided(site))
    ]
    _, name, head = max(decided, key=lambda entry: entry[0])
    return name, head


def _decided(site: AttentionSite) -> Tensor:
    """(head,): the mean over queries of the strongest weight; of a long text, over some of them, evenly spread."""
    rows, site = slice(0, None, max(1, site.n_query // MOST_ROWS)), site.read("q", "k")
    return torch.stack(
        [site.weights(head, rows=rows).amax(-1).mean() for head in range(site.n_heads)]
    )
