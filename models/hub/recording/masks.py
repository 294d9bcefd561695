"""Take apart the mask of a third-party model: its named layers, and the bias on the scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from models.hub.recording.context import AttentionCall
from models.layers.masks import LOOK_AHEAD, PADDING, Mask, MaskLayer
from models.layers.similarity import masked_softmax, of_scale
from models.trace.edits import MaskChange
from models.trace.site import per_head
from models.trace.terms import AxisIndex, DistanceTerm, ScoreTerm

MODEL_MASK = "the model's own mask"
BIAS = "the model's own bias"
# Below this a cell is blocked: −10,000 is the weakest mask value in use, and a bias may be added.
# ALiBi's steepest slope is below 1, so its bias reaches this value only after 9,000 tokens.
LOWEST = -9e3


@dataclass(frozen=True)
class BiasTerm(ScoreTerm):
    """A model's own addition to its scores, (batch or 1, head or 1, query or 1, key)."""

    values: Float[Tensor, "#batch #head #query key"]

    @property
    def is_zero(self) -> bool:
        return not bool(self.values.any())

    def scores(
        self, head: int | None, queries: Int[Tensor, " query"], n_key: int, batch: int = 0
    ) -> Float[Tensor, "*head query key"]:
        values = self.values[min(batch, len(self.values) - 1)]  # (head or 1, query or 1, key)
        values = values[..., :n_key]  # those of a batch are as long as its longest row
        if values.shape[1] == 1:
            rows = values.expand(-1, len(queries), -1)
        else:
            rows = values[:, queries - (n_key - values.shape[1])]
        return rows if head is None else rows[min(head, len(rows) - 1)]

    def map_tensors(
        self, per_token: Callable[[Tensor, AxisIndex], Tensor], shared: Callable[[Tensor], Tensor]
    ) -> BiasTerm:
        values = self.values
        if len(values) > 1 or values.shape[2] > 1:  # of one row, or of some queries
            every = values if values.shape[2] > 1 else values.expand(-1, -1, values.shape[3], -1)
            values = per_token(every, 2)
        return replace(self, values=shared(values))


@dataclass(frozen=True)
class MaskExplanation:
    """A mask as named layers, and the terms that it adds to the scores of open cells."""

    mask: Mask
    terms: tuple[ScoreTerm, ...] = ()


def explain_mask(
    attn_mask: Shaped[Tensor, ...] | None,
    is_causal: bool,
    n_query: int,
    n_key: int,
    padding: Bool[Tensor, "batch key"] | None,
    device: torch.device,
) -> MaskExplanation:
    """Take apart a mask of scaled_dot_product_attention (True or 0 = may attend).

    The mask broadcasts to (batch, head, query, key). `padding` is True at the keys that hold a
    token, None if the caller does not know. No layer blocks an open cell, and together the layers
    block the same cells as the mask; the part without a name is MODEL_MASK.
    """
    start = max(0, n_key - n_query)
    if attn_mask is None:
        causal = torch.ones(n_query, n_key, dtype=torch.bool, device=device).tril_()
        return MaskExplanation(
            Mask([MaskLayer(LOOK_AHEAD, causal[None, None])] if is_causal else [], start)
        )
    attn_mask = (
        attn_mask.expand(*attn_mask.shape[:-1], n_key)
        if attn_mask.dim() > 1
        else attn_mask.expand(n_query, n_key)
    )
    attn_mask = attn_mask.reshape((1,) * (4 - attn_mask.dim()) + tuple(attn_mask.shape))
    if attn_mask.dtype == torch.bool:
        return MaskExplanation(Mask(layers(attn_mask, padding, n_query), start))
    allowed = attn_mask > LOWEST
    closed = ~allowed.any(-1, keepdim=True)  # a row blocked by finite numbers is still read
    if padding is not None and padding.shape[1] == n_key >= n_query:
        closed = closed & padding[:, None, n_key - n_query :, None]
    allowed = allowed | (closed & attn_mask.isfinite())
    added = torch.where(allowed, attn_mask.float(), 0.0)
    return MaskExplanation(
        Mask(layers(allowed, padding, n_query), start),
        (term_of(added, allowed),) if added.any() else (),
    )


def layers(
    allowed: Bool[Tensor, "#batch #head #query key"],
    padding: Bool[Tensor, "batch key"] | None,
    n_query: int,
) -> list[MaskLayer]:
    """Return the named layers of a mask: padding, look-ahead, a window, and the remainder.

    A named layer is used only if it blocks no cell that the mask leaves open; cells that no named
    layer explains are blocked by MODEL_MASK.
    """
    if bool(allowed.all()):
        return []
    n_key = allowed.shape[-1]
    result: list[MaskLayer] = []
    left = allowed.expand(*allowed.shape[:2], n_query, n_key)
    for find in (partial(_padding, padding=padding), _look_ahead, _window):
        layer = None if bool(left.all()) else find(left)
        if layer is not None and not bool((allowed & ~layer.allowed).any()):
            result.append(layer)
            left = left | ~layer.allowed
    return result if bool(left.all()) else [*result, MaskLayer(MODEL_MASK, left)]


def _padding(
    allowed: Bool[Tensor, "#batch #head query key"], padding: Bool[Tensor, "batch key"] | None
) -> MaskLayer | None:
    """Return the keys that no query of a row reads.

    For a single query they are known to be padding only if the caller says so.
    """
    if padding is None:
        is_open = allowed.any(2, keepdim=True).any(1, keepdim=True)
        return None if allowed.shape[2] == 1 or bool(is_open.all()) else MaskLayer(PADDING, is_open)
    return None if bool(padding.all()) else MaskLayer(PADDING, padding[:, None, None])


def _look_ahead(allowed: Bool[Tensor, "#batch #head query key"]) -> MaskLayer | None:
    """Return the causal mask of the last n_query positions; None if it blocks nothing."""
    n_query, n_key = allowed.shape[-2:]
    below = torch.ones(n_query, n_key, dtype=torch.bool, device=allowed.device).tril_(
        n_key - n_query
    )
    return None if bool(below.all()) else MaskLayer(LOOK_AHEAD, below[None, None])


def _window(allowed: Bool[Tensor, "#batch #head query key"]) -> MaskLayer | None:
    """Return the window in which every query reads the keys up to k tokens away and no others."""
    n_query, n_key = allowed.shape[-2:]
    query = torch.arange(n_key - n_query, n_key, device=allowed.device)
    away = (torch.arange(n_key, device=allowed.device)[None] - query[:, None]).abs()
    k = int(away.expand_as(allowed)[~allowed].min()) - 1
    return (
        None
        if k < 0
        else MaskLayer(MaskChange(preset="window", k=k).preset_name, (away <= k)[None, None])
    )


def term_of(
    added: Float[Tensor, "#batch #head #query key"],
    allowed: Bool[Tensor, "#batch #head #query key"],
) -> ScoreTerm:
    """Return the bias as a table by distance, if that covers every open cell, or else as it is."""
    if (
        len(added) == 1
        and added.shape[2] > 1
        and (table := _by_distance(added[0], allowed.expand_as(added)[0])) is not None
    ):
        return table
    return BiasTerm(BIAS, added)


def _by_distance(
    added: Float[Tensor, "head query key"], allowed: Bool[Tensor, "head query key"]
) -> DistanceTerm | None:
    n_heads, n_query, n_key = added.shape
    query = torch.arange(n_key - n_query, n_key, device=added.device)
    distance = torch.arange(n_key, device=added.device)[None] - query[:, None]  # (query, key)
    open_ = allowed.any(0)
    if not bool(open_.any()):
        return None
    least, most = int(distance[open_].min()), int(distance[open_].max())
    table, column = added.new_zeros(n_heads, most - least + 1), distance - least
    alike = torch.equal(allowed, allowed[:1].expand_as(allowed))
    for heads in [slice(None)] if alike else [slice(h, h + 1) for h in range(n_heads)]:
        cells = allowed[heads][0]
        at, values = column[cells], added[heads][:, cells]
        table[heads, at] = values
        if not torch.equal(table[heads][:, at], values):
            return None
    return DistanceTerm(BIAS, table, least)


def as_attn_mask(
    mask: Mask, terms: tuple[ScoreTerm, ...], n_query: int, n_key: int, dtype: torch.dtype
) -> Tensor | None:
    """Return a mask and a bias as one tensor for scaled_dot_product_attention."""
    if mask.blocking is None and not terms:
        return None
    if not terms:
        return mask.allowed
    queries = torch.arange(n_key - n_query, n_key)
    batch = max((len(t.values) for t in terms if isinstance(t, BiasTerm)), default=1)
    added = sum_of_terms(terms, queries, n_key, batch)  # (batch, head, query, key)
    return (added if mask.blocking is None else torch.where(mask.blocking, added, -torch.inf)).to(
        dtype
    )


def sum_of_terms(
    terms: Sequence[ScoreTerm], queries: Int[Tensor, " query"], n_key: int, n_rows: int
) -> Float[Tensor, "batch head query key"]:
    """Return the sum of these terms for the scores of all heads, for each row of a batch."""
    rows = [
        torch.stack([term.scores(None, queries, n_key, row) for term in terms]).sum(0)
        for row in range(n_rows)
    ]
    return torch.stack(rows)


def call_weights(
    call: AttentionCall, explanation: MaskExplanation
) -> Float[Tensor, "batch head query key"]:
    """Return the weights of a call, computed step by step, in its own dtype."""
    q, k = call.q.float(), per_head(call.k.float(), call.q.shape[1], 1)
    scores, (n_query, n_key) = of_scale(call.scale, q.shape[-1])(q, k), (q.shape[2], k.shape[2])
    if explanation.terms:
        queries = torch.arange(n_key - n_query, n_key)
        scores = scores + sum_of_terms(explanation.terms, queries, n_key, len(q))
    return masked_softmax(scores, explanation.mask.allowed).to(call.q.dtype)
