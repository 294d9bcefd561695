"""All heads at a glance: a picture of at most 64 × 64 cells for each head, one byte a cell."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from models.analysis.joined_words import UNKNOWN_WORDS, is_joined, knows_words
from models.layers.similarity import masked_softmax
from models.trace import AttentionSite, Trace
from viz_app import words
from viz_app.drawing.labels import queries_are_written
from viz_app.drawing.payload import pack
from viz_app.drawing.pooling import block_side, pooled, pooled_heads
from viz_app.drawing.provenance import file_name
from viz_app.drawing.scale import ROW_SCALE, automatic
from viz_app.drawing.sites import by_kind
from viz_app.drawing.stamp import facts, saving

MAX_THUMBNAIL_SIDE = 64
LARGEST_BYTES = 900_000
LARGEST_AT_ONCE = 2**18  # weights computed together: faster for small matrices, bounded in memory

Codes = tuple[int, np.ndarray]  # k, and uint8 (site, head, query/k, key/k)


def overview(
    trace: Trace,
    terms: words.Terms,
    site: str = "",
    head: int = 0,
    precomputed: Sequence[Codes] | None = None,
    switches: bool = False,
) -> bytes:
    """Return the payload of the overview component, with (site, head) marked as chosen.

    `precomputed` is a previous result of `all_codes`; `switches` offers joining sub-words in the
    picture.
    """
    blocks, parts, offset = [], [], 0
    for (kind, sites), (k, codes) in zip(
        by_kind(trace), precomputed or all_codes(trace), strict=True
    ):
        blocks.append(
            {
                "kind": kind,
                "title": words.kind_title(sites[0]),
                "subtitle": words.kind_subtitle(sites[0], terms),
                "sides": words.axis_names(sites[0], queries_are_written(trace, sites[0])),
                "sites": [s.name for s in sites],
                "layers": [s.layer + 1 for s in sites],
                "heads": codes.shape[1],
                "rows": codes.shape[2],
                "cols": codes.shape[3],
                "pool": k,
                "byRow": is_by_row(sites[0]),
                "offset": offset,
            }
        )
        parts.append(codes.ravel())
        offset += codes.size
    header = {
        "blocks": blocks, "chosen": {"site": site, "head": head}, "switches": switches, "joined": is_joined(trace),
        "joins": words.as_sentence(words.JOINED),
        "cannot": "" if knows_words(trace) else words.as_sentence(UNKNOWN_WORDS),
        **saving(file_name(trace, "all-heads"), facts(trace)),
    }  # fmt: skip
    return pack(header, codes=np.concatenate(parts))


def all_codes(trace: Trace) -> list[Codes]:
    """Return, for each kind of attention, the tokens per side of a cell and the heads' codes."""
    side = side_for(sum(s.n_heads for s in trace.attention.values()))
    codes = []
    for _, sites in by_kind(trace):
        k = block_side(sites[0].n_query, sites[0].n_key, side)
        step = max(1, LARGEST_AT_ONCE // (sites[0].n_heads * sites[0].n_query * sites[0].n_key))
        codes.append(
            (
                k,
                torch.cat(
                    [pooled_codes(sites[i : i + step], k) for i in range(0, len(sites), step)]
                ).numpy(),
            )
        )
    return codes


def side_for(n_heads: int) -> int:
    """Return the cells per side that keep the payload of all heads below LARGEST_BYTES."""
    return min(MAX_THUMBNAIL_SIDE, math.isqrt(LARGEST_BYTES // max(n_heads, 1)))


def pooled_codes(sites: Sequence[AttentionSite], k: int) -> Tensor:
    """Return (site, head, query/k, key/k) uint8: 0 if masked, else 1 + largest weight × 254.

    The weights of a long row are divided by its largest (`is_by_row`).
    """
    first = sites[0]
    if first.n_heads * first.n_query * first.n_key > LARGEST_AT_ONCE:
        return torch.stack(
            [_codes(pooled_heads(site, range(site.n_heads), k), is_by_row(site)) for site in sites]
        )
    allowed = torch.stack([site.allowed(head=None) for site in sites])
    if all(site.has_causes and not site.edits_weights for site in sites):  # one softmax for all
        weights = masked_softmax(torch.stack([site.scores() for site in sites]), allowed)
    else:
        weights = torch.stack([site.weights() for site in sites])
    return _codes(pooled(weights.masked_fill(~allowed, -1.0), k), is_by_row(first))


def is_by_row(site: AttentionSite) -> bool:
    """Return True if each row is drawn relative to its largest weight, as all would be pale."""
    return automatic(site.n_key) == ROW_SCALE


def _codes(pooled: Tensor, by_row: bool) -> Tensor:
    """Convert pooled weights, in which −1 is masked, to codes.

    `by_row` divides by the largest of a row.
    """
    if by_row:
        largest = pooled.amax(-1, keepdim=True)
        pooled = torch.where((pooled > 0) & (largest > 0), pooled / largest, pooled)
    return torch.where(pooled < 0, 0.0, 1 + (pooled * 254).round()).to(torch.uint8)
