"""All heads at a glance: a picture of at most 64 × 64 cells for each head, one byte a cell."""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

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
MAX_OVERVIEW_BYTES = 900_000
# weights computed together: faster for small matrices, bounded in memory
MAX_WEIGHTS_AT_ONCE = 2**18


class Codes(NamedTuple):
    """The pictures of all heads of a kind of attention.

    A site with fewer heads than another has pictures of masked cells in their place.
    """

    k: int  # tokens per side of a cell
    codes: np.ndarray  # uint8 (site, head, query/k, key/k)
    largest: list[list[float]]  # weight of each head of each site


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
    for (kind, sites), (k, codes, largest) in zip(
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
                "largest": largest,
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
    """Return the codes of all heads, for each kind of attention."""
    side = side_for(sum(s.n_heads for s in trace.attention.values()))
    return [_codes_of(sites, side) for _, sites in by_kind(trace)]


def _codes_of(sites: Sequence[AttentionSite], side: int) -> Codes:
    k, most = block_side(sites[0].n_query, sites[0].n_key, side), max(s.n_heads for s in sites)
    codes: list[Tensor] = []
    largest: list[list[float]] = []
    for n_heads, alike in groupby(sites, lambda site: site.n_heads):
        alike = list(alike)
        step = max(1, MAX_WEIGHTS_AT_ONCE // (n_heads * sites[0].n_query * sites[0].n_key))
        for i in range(0, len(alike), step):
            of_sites, of_heads = pooled_codes(alike[i : i + step], k)
            codes.append(pad(of_sites, (0, 0, 0, 0, 0, most - n_heads)))
            largest += of_heads
    return Codes(k, torch.cat(codes).numpy(), largest)


def side_for(n_heads: int) -> int:
    """Return the cells per side that keep the payload of all heads below MAX_OVERVIEW_BYTES."""
    return min(MAX_THUMBNAIL_SIDE, math.isqrt(MAX_OVERVIEW_BYTES // max(n_heads, 1)))


def pooled_codes(sites: Sequence[AttentionSite], k: int) -> tuple[Tensor, list[list[float]]]:
    """Return the codes (site, head, query/k, key/k) and the largest weight of each head by site.

    A code is 0 if masked, else 1 + largest weight × 254. The weights of a long row are divided by
    its largest (`is_by_row`).
    """
    weights = pooled_sites(sites, k)
    largest = weights.amax((-2, -1)).clamp(min=0).tolist()
    return _codes(weights, is_by_row(sites[0])), largest


def pooled_sites(sites: Sequence[AttentionSite], k: int) -> Tensor:
    """Return (site, head, query/k, key/k): the largest weights of all heads, −1 if masked."""
    first = sites[0]
    if first.n_heads * first.n_query * first.n_key > MAX_WEIGHTS_AT_ONCE:
        return torch.stack([pooled_heads(site, range(site.n_heads), k) for site in sites])
    allowed = torch.stack([site.allowed(head=None) for site in sites])
    if all(site.has_causes and not site.edits_weights for site in sites):  # one softmax for all
        weights = masked_softmax(torch.stack([site.scores() for site in sites]), allowed)
    else:
        weights = torch.stack([site.weights() for site in sites])
    return pooled(weights.masked_fill(~allowed, -1.0), k)


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
