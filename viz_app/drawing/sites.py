"""The attention sites of a trace, grouped by kind and ordered by layer."""

from itertools import groupby

import torch
from torch import Tensor

from models.layers.masks import ROLES
from models.trace import AttentionSite, Trace
from models.trace.site import RowSlice
from viz_app.drawing.labels import is_word, labels

LAST_BIT = 7  # of a byte
MAX_SAMPLED_ROWS = 256  # rows of a head that are sampled to find the sharpest


def by_kind(trace: Trace) -> list[tuple[str, list[AttentionSite]]]:
    """Return (kind, its sites by layer), the encoder before the decoder, self before cross."""
    order = list(dict.fromkeys(site.kind for site in sorted(trace.attention.values(), key=_rank)))
    sites = sorted(trace.attention.values(), key=lambda site: (order.index(site.kind), site.layer))
    return [(kind, list(group)) for kind, group in groupby(sites, key=lambda site: site.kind)]


def _rank(site: AttentionSite) -> tuple[bool, int]:
    """Return a sort key: encoder before decoder, self-attention before cross-attention."""
    return site.stack != "encoder", ROLES.index(site.role) if site.role in ROLES else len(ROLES)


def blocked_bits(site: AttentionSite, head: int = 0, rows: RowSlice = None) -> Tensor:
    """Return (query, key) uint8: bit i set where the i-th mask layer blocks the cell, 0 where open.

    The last of 8 bits is that of all further layers; `rows` selects a slice of the queries.
    """
    whole = torch.zeros((), dtype=torch.uint8).expand(site.n_query, site.n_key)
    bits = whole[rows or slice(None)].clone()
    for i, layer in enumerate(site.mask.layers):
        allowed = layer.allowed[0, min(head, layer.allowed.shape[1] - 1)].expand(
            site.n_query, site.n_key
        )
        bits |= (~allowed[rows or slice(None)]).to(torch.uint8) << min(i, LAST_BIT)
    return bits


def sharpest_head(trace: Trace, kind: str = "cross") -> tuple[str, int]:
    """Return (site name, head) of the head that makes a good first picture.

    It is the one with the most peaked rows on average. Where tokens attend to each other, it is the
    one with the most peaked columns, over all words but the first: each word counts by the largest
    weight that another token gives it. Many heads rest on one token, the first or a full stop,
    which says little about the text.
    """
    sites = [s for s in trace.attention.values() if s.kind == kind] or list(
        trace.attention.values()
    )
    ranking = [
        (float(mean), site.name, head)
        for site in sites
        for head, mean in enumerate(_mean_peaks(trace, site))
    ]
    _, name, head = max(ranking, key=lambda entry: entry[0])
    return name, head


def _mean_peaks(trace: Trace, site: AttentionSite) -> Tensor:
    """Return (head,): the mean of the strongest weights of queries, or of words that are read.

    Long texts are sampled, down to at most MAX_SAMPLED_ROWS queries.
    """
    rows = slice(0, None, max(1, -(-site.n_query // MAX_SAMPLED_ROWS)))
    words = _words_read(trace, site)[rows]
    site, among_each_other = site.read("q", "k"), site.query_stream == site.key_stream
    return torch.stack(
        [
            (site.weights(head, rows=rows) * words).amax(-2 if among_each_other else -1).mean()
            for head in range(site.n_heads)
        ]
    )


def _words_read(trace: Trace, site: AttentionSite) -> Tensor:
    """Return (query, key): 1 where a word but the first is read by another, or else everywhere."""
    counts = torch.ones(site.n_query, site.n_key)
    if site.query_stream != site.key_stream or site.n_query != site.n_key:
        return counts
    words = torch.tensor([float(is_word(label)) for label in labels(trace.axes(site)[1])])
    words[0] = 0
    return counts * words * (1 - torch.eye(site.n_query)) if words.sum() > 1 else counts
