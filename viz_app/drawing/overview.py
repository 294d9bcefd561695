"""All heads at a glance: every head of every site as a small picture of at most 64 × 64 cells, one byte a cell."""

import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from models.layers.similarity import masked_softmax
from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.drawing.labels import writes
from viz_app.drawing.payload import pack
from viz_app.drawing.sites import by_kind

LARGEST_SIDE = 64
LARGEST_BYTES = 900_000
LARGEST_AT_ONCE = 2**18     # weights worked out together: many small matrices take longer one by one, large ones more memory


def overview(trace: Trace, terms: words.Terms, site: str = "", head: int = 0) -> bytes:
    """The payload of the overview component, with (site, head) marked as the chosen one."""
    blocks, parts, offset = [], [], 0
    side = side_for(sum(s.n_heads for s in trace.attention.values()))
    for kind, sites in by_kind(trace):
        k = pooling(sites[0], side)
        few = max(1, LARGEST_AT_ONCE // (sites[0].n_heads * sites[0].n_query * sites[0].n_key))
        codes = torch.cat([pooled_codes(sites[i : i + few], k) for i in range(0, len(sites), few)]).numpy()
        blocks.append({
            "kind": kind, "title": words.kind_title(sites[0]), "subtitle": words.kind_subtitle(sites[0], terms),
            "sides": words.sides(writes(trace, sites[0])),
            "sites": [s.name for s in sites], "layers": [s.layer + 1 for s in sites],
            "heads": codes.shape[1], "rows": codes.shape[2], "cols": codes.shape[3], "pool": k, "offset": offset,
        })
        parts.append(codes.ravel())
        offset += codes.size
    return pack({"blocks": blocks, "chosen": {"site": site, "head": head}}, codes=np.concatenate(parts))


def side_for(n_heads: int) -> int:
    """Cells a side that keep all heads together under LARGEST_BYTES."""
    return min(LARGEST_SIDE, math.isqrt(LARGEST_BYTES // max(n_heads, 1)))


def pooling(site: AttentionSite, side: int = LARGEST_SIDE) -> int:
    """k such that a k × k block of cells becomes one pixel; 1 shows every cell."""
    return max(1, math.ceil(max(site.n_query, site.n_key) / side))


def pooled_codes(sites: Sequence[AttentionSite], k: int) -> Tensor:
    """(site, head, query/k, key/k) uint8: 0 where every cell of the block is masked, else 1 + its largest weight × 254."""
    first = sites[0]
    if first.n_heads * first.n_query * first.n_key > LARGEST_AT_ONCE:
        return torch.stack([torch.stack([pooled_head(site, head, k) for head in range(site.n_heads)]) for site in sites])
    allowed = torch.stack([site.allowed(head=None) for site in sites])
    weights = masked_softmax(torch.stack([site.scores() for site in sites]), allowed)
    return _codes(weights.masked_fill(~allowed, -1.0), k)


def pooled_head(site: AttentionSite, head: int, k: int) -> Tensor:
    """(query/k, key/k) uint8 of one head, worked out some rows at a time: a long text's weights are never all there at once."""
    step = k * max(1, LARGEST_AT_ONCE // (k * site.n_key))
    slabs = []
    for start in range(0, site.n_query, step):
        rows = slice(start, start + step)
        shown = site.weights(head, rows=rows).masked_fill(~site.allowed(head=head, rows=rows), -1.0)
        slabs.append(_codes(shown[None, None], k)[0, 0])
    return torch.cat(slabs)


def _codes(shown: Tensor, k: int) -> Tensor:
    """Pooled codes of weights (…, query, key) in which −1 is a masked cell."""
    pooled = F.max_pool2d(shown, k, ceil_mode=True) if k > 1 else shown
    return torch.where(pooled < 0, 0.0, 1 + (pooled * 254).round()).to(torch.uint8)
