"""What a model hands its attention as a mask, taken apart: the named layers it is made of, and what it adds to the scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from models.layers.masks import LOOK_AHEAD, PADDING, Mask, MaskLayer
from models.trace.edits import MaskChange
from models.trace.terms import Axis, DistanceTerm, ScoreTerm

OWN = "the model's own mask"
BIAS = "the model's own bias"
# Below this a cell is forbidden: −10,000 is the weakest value in use as a mask, and a bias on top of it may be positive.
# ALiBi's steepest slope is below 1, so it gets here after 9,000 tokens.
LOWEST = -9e3


@dataclass(frozen=True)
class BiasTerm(ScoreTerm):
    """What a model adds to its scores, as it handed it over; (batch or 1, head or 1, query or 1, key)."""

    values: Float[Tensor, "#batch #head #query key"]

    def scores(
        self, head: int | None, queries: Int[Tensor, query], n_key: int, batch: int = 0
    ) -> Float[Tensor, "*head query key"]:
        values = self.values[min(batch, len(self.values) - 1)]  # (head or 1, query or 1, key)
        rows = values if values.shape[1] == 1 else values[:, queries - (n_key - values.shape[1])]
        return rows if head is None else rows[min(head, len(rows) - 1)]

    def map_tensors(
        self, per_token: Callable[[Tensor, Axis], Tensor], shared: Callable[[Tensor], Tensor]
    ) -> BiasTerm:
        values = self.values if self.values.shape[2] == 1 else per_token(self.values, 2)
        return replace(self, values=shared(values))


@dataclass(frozen=True)
class Explanation:
    """A mask as named layers, and what is added to the scores besides."""

    mask: Mask
    terms: tuple[ScoreTerm, ...] = ()


def explain(
    attn_mask: Tensor | None,
    is_causal: bool,
    n_query: int,
    n_key: int,
    padding: Bool[Tensor, "batch key"] | None,
    device: torch.device,
) -> Explanation:
    """A mask as scaled_dot_product_attention takes it (True or 0 = may attend), broadcast to (batch, head, query, key).

    `padding` is True at the keys that hold a token, where the caller knows that. Each layer blocks nothing that the mask does not
    block, and together they block all that it does; what has no name is OWN."""
    start = max(0, n_key - n_query)
    if attn_mask is None:
        causal = torch.ones(n_query, n_key, dtype=torch.bool, device=device).tril_()
        return Explanation(
            Mask([MaskLayer(LOOK_AHEAD, causal[None, None])] if is_causal else [], start)
        )
    attn_mask = (
        attn_mask.expand(*attn_mask.shape[:-1], n_key)
        if attn_mask.dim() > 1
        else attn_mask.expand(n_query, n_key)
    )
    attn_mask = attn_mask.reshape((1,) * (4 - attn_mask.dim()) + tuple(attn_mask.shape))
    if attn_mask.dtype == torch.bool:
        return Explanation(Mask(layers(attn_mask, padding, n_query), start))
    allowed = attn_mask > LOWEST
    added = attn_mask.float().masked_fill(~allowed, 0.0)
    return Explanation(
        Mask(layers(allowed, padding, n_query), start),
        (_term(added, allowed),) if added.any() else (),
    )


def layers(
    allowed: Bool[Tensor, "#batch #head #query key"],
    padding: Bool[Tensor, "batch key"] | None,
    n_query: int,
) -> list[MaskLayer]:
    """The named layers that these cells are: padding, look-ahead, a window, and what is left of it. `left` is blocked where no
    layer has explained it yet; a layer that blocks an open cell is none of the mask's."""
    if bool(allowed.all()):
        return []
    n_key = allowed.shape[-1]
    found: list[MaskLayer] = []
    left = allowed.expand(*allowed.shape[:2], n_query, n_key)
    for named in (partial(_padding, padding=padding), _look_ahead, _window):
        layer = None if bool(left.all()) else named(left)
        if layer is not None and not bool((allowed & ~layer.allowed).any()):
            found.append(layer)
            left = left | ~layer.allowed
    return found if bool(left.all()) else [*found, MaskLayer(OWN, left)]


def _padding(
    allowed: Bool[Tensor, "#batch #head query key"], padding: Bool[Tensor, "batch key"] | None
) -> MaskLayer | None:
    """The keys that no query of a row sees; of a single query they are known to be padding only where the caller says so."""
    if padding is None:
        seen = allowed.any(2, keepdim=True).any(1, keepdim=True)
        return None if allowed.shape[2] == 1 or bool(seen.all()) else MaskLayer(PADDING, seen)
    return None if bool(padding.all()) else MaskLayer(PADDING, padding[:, None, None])


def _look_ahead(allowed: Bool[Tensor, "#batch #head query key"]) -> MaskLayer | None:
    """Query i sees keys 0 … i, counted from the end where earlier ones come from a cache."""
    n_query, n_key = allowed.shape[-2:]
    below = torch.ones(n_query, n_key, dtype=torch.bool, device=allowed.device).tril_(
        n_key - n_query
    )
    return None if bool(below.all()) else MaskLayer(LOOK_AHEAD, below[None, None])


def _window(allowed: Bool[Tensor, "#batch #head query key"]) -> MaskLayer | None:
    """Every query sees the keys up to k tokens away, and none that is further; named as the one that a person can put on."""
    n_query, n_key = allowed.shape[-2:]
    query = torch.arange(n_query, device=allowed.device) + (n_key - n_query)
    away = (torch.arange(n_key, device=allowed.device)[None] - query[:, None]).abs()
    k = int(away.expand_as(allowed)[~allowed].min()) - 1
    return (
        None
        if k < 0
        else MaskLayer(MaskChange(ready="window", k=k).ready_name, (away <= k)[None, None])
    )


def _term(
    added: Float[Tensor, "#batch #head #query key"],
    allowed: Bool[Tensor, "#batch #head #query key"],
) -> ScoreTerm:
    """By its cause, a table by distance, where every open cell is what the table says; else as it was given."""
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
    query = torch.arange(n_query, device=added.device) + (n_key - n_query)
    distance = torch.arange(n_key, device=added.device)[None] - query[:, None]  # (query, key)
    open_ = allowed.any(0)
    if not bool(open_.any()):
        return None
    least, most = int(distance[open_].min()), int(distance[open_].max())
    table, column = added.new_zeros(n_heads, most - least + 1), distance - least
    alike = torch.equal(allowed, allowed[:1].expand_as(allowed))
    for heads in [slice(None)] if alike else [slice(h, h + 1) for h in range(n_heads)]:
        own = allowed[heads][0]
        at, found = column[own], added[heads][:, own]
        table[heads, at] = found
        if not torch.equal(table[heads][:, at], found):
            return None
    return DistanceTerm(BIAS, table, least)


def as_attn_mask(
    mask: Mask, terms: tuple[ScoreTerm, ...], n_query: int, n_key: int, dtype: torch.dtype
) -> Tensor | None:
    """A mask and what is added to the scores as one tensor that scaled_dot_product_attention takes."""
    if mask.blocking is None and not terms:
        return None
    if not terms:
        return mask.allowed
    queries = torch.arange(n_query) + (n_key - n_query)
    batch = max(
        len(values) for values in (*(t.values for t in terms if isinstance(t, BiasTerm)), [0])
    )
    rows = [sum(term.scores(None, queries, n_key, row) for term in terms) for row in range(batch)]
    added = torch.stack(rows)  # (batch, head, query, key)
    return (added if mask.blocking is None else torch.where(mask.blocking, added, -torch.inf)).to(
        dtype
    )
