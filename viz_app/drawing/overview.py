"""All heads at a glance: every head of every site as a small picture of at most 64 × 64 cells, one byte a cell."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from models.analysis.joined_words import UNKNOWN_WORDS, is_joined, knows_words
from models.layers.similarity import masked_softmax
from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.drawing.labels import writes
from viz_app.drawing.payload import pack
from viz_app.drawing.pooling import block_side, pooled, pooled_heads
from viz_app.drawing.provenance import file_name
from viz_app.drawing.sites import by_kind
from viz_app.drawing.stamp import facts, saving

LARGEST_SIDE = 64
LARGEST_BYTES = 900_000
LARGEST_AT_ONCE = (
    2**18
)  # weights worked out together: many small matrices take longer one by one, large ones more memory

Codes = tuple[int, np.ndarray]  # k, and uint8 (site, head, query/k, key/k)


def overview(
    trace: Trace,
    terms: words.Terms,
    site: str = "",
    head: int = 0,
    precomputed: Sequence[Codes] | None = None,
    switches: bool = False,
) -> bytes:
    """The payload of the overview component, with (site, head) marked as the chosen one; `precomputed` is what `all_codes`
    gives, if it has been worked out before; `switches` if sub-words can be joined and parted in the picture."""
    blocks, parts, offset = [], [], 0
    for (kind, sites), (k, codes) in zip(
        by_kind(trace), precomputed or all_codes(trace), strict=True
    ):
        blocks.append(
            {
                "kind": kind,
                "title": words.kind_title(sites[0]),
                "subtitle": words.kind_subtitle(sites[0], terms),
                "sides": words.sides(sites[0], writes(trace, sites[0])),
                "sites": [s.name for s in sites],
                "layers": [s.layer + 1 for s in sites],
                "heads": codes.shape[1],
                "rows": codes.shape[2],
                "cols": codes.shape[3],
                "pool": k,
                "offset": offset,
            }
        )
        parts.append(codes.ravel())
        offset += codes.size
    header = {
        "blocks": blocks, "chosen": {"site": site, "head": head}, "switches": switches, "joined": is_joined(trace),
        "joins": words.sentence(words.JOINED),
        "cannot": "" if knows_words(trace) else words.sentence(UNKNOWN_WORDS),
        **saving(file_name(trace, "all-heads"), facts(trace)),
    }  # fmt: skip
    return pack(header, codes=np.concatenate(parts))


def all_codes(trace: Trace) -> list[Codes]:
    """Of each kind of attention in turn how many tokens a side become one cell, and the codes of its heads."""
    side = side_for(sum(s.n_heads for s in trace.attention.values()))
    found = []
    for _, sites in by_kind(trace):
        k = block_side(sites[0].n_query, sites[0].n_key, side)
        few = max(1, LARGEST_AT_ONCE // (sites[0].n_heads * sites[0].n_query * sites[0].n_key))
        found.append(
            (
                k,
                torch.cat(
                    [pooled_codes(sites[i : i + few], k) for i in range(0, len(sites), few)]
                ).numpy(),
            )
        )
    return found


def side_for(n_heads: int) -> int:
    """Cells a side that keep all heads together under LARGEST_BYTES."""
    return min(LARGEST_SIDE, math.isqrt(LARGEST_BYTES // max(n_heads, 1)))


def pooled_codes(sites: Sequence[AttentionSite], k: int) -> Tensor:
    """(site, head, query/k, key/k) uint8: 0 where every cell of the block is masked, else 1 + its largest weight × 254."""
    first = sites[0]
    if first.n_heads * first.n_query * first.n_key > LARGEST_AT_ONCE:
        return torch.stack([_codes(pooled_heads(site, range(site.n_heads), k)) for site in sites])
    allowed = torch.stack([site.allowed(head=None) for site in sites])
    if all(site.has_causes for site in sites):  # one softmax for all
        weights = masked_softmax(torch.stack([site.scores() for site in sites]), allowed)
    else:
        weights = torch.stack([site.weights() for site in sites])
    return _codes(pooled(weights.masked_fill(~allowed, -1.0), k))


def _codes(pooled: Tensor) -> Tensor:
    """Codes of pooled weights in which −1 is masked."""
    return torch.where(pooled < 0, 0.0, 1 + (pooled * 254).round()).to(torch.uint8)
