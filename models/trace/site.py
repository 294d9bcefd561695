"""One attention of one run, by its causes: q, k, v, named terms, mask and similarity, O(n·d). Scores, weights and what a head
passes on are derived when asked, for one head and for a slice of its rows, so that a long text never makes an n × n tensor
that nobody looks at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.layers.masks import Mask, SiteKind
from models.layers.similarity import LearnedSimilarity, Similarity, masked_softmax
from models.trace.deferred import Deferred, Product
from models.trace.edits.base import AttentionPart, Edits, edited_head_out, edited_weights
from models.trace.terms import ScoreTerm

Rows = slice | None  # of the queries; None for all
Projection = tuple[Tensor, Tensor | None]  # weight and bias


@runtime_checkable
class Attention(Protocol):
    """A module that computes attention, as far as a recording needs to know it."""

    path: str  # in the module tree
    n_heads: int
    kind: SiteKind
    similarity: LearnedSimilarity

    @property
    def projections(self) -> Mapping[str, Projection]:
        """W_Q W_K W_V W_O → (weight, bias), without gradients; empty if q is not x·W."""
        ...


@dataclass(frozen=True)
class AttentionSite:
    """Shapes: q (batch, head, query, d_head); k, v (batch, key head, key, d_head); `out` is what the fused kernel returned,
    (batch, head, query, d_head). Where there are fewer key heads than heads, a group of heads reads the same one.

    Of a site of given weights, (batch, head, query, key), there is nothing else: a library handed them out and not their causes."""

    name: str
    site_kind: SiteKind
    x: Tensor  # what W_Q was applied to, (batch, query, d_model)
    memory: Tensor  # what W_K and W_V were applied to, (batch, key, d_model); with a cache, the new positions only
    q: Tensor | Product = Deferred()  # noqa: RUF009 (a descriptor; reads as a tensor)
    k: Tensor | Product = Deferred()  # noqa: RUF009 (a descriptor; reads as a tensor)
    v: Tensor | Product = Deferred()  # noqa: RUF009 (a descriptor; reads as a tensor)
    out: Tensor
    mask: Mask
    similarity: Similarity
    projections: Mapping[str, Projection]  # by W_Q W_K W_V W_O; empty if q is not x·W
    query_tokens: tuple[str, ...] = ()
    key_tokens: tuple[str, ...] = ()
    terms: tuple[ScoreTerm, ...] = ()
    number: int | None = None  # of its layer, where its name does not say
    dtype: torch.dtype = torch.float32  # in which the model ran
    given_weights: Tensor | None = None
    edits: Edits = ()  # those that apply to it; the mask is changed already

    @property
    def has_causes(self) -> bool:
        """Return True if q, k, v and scores are known; if not, its weights are all there is."""
        return self.given_weights is None

    @property
    def kind(self) -> str:
        """The name of its kind, which is that of its mask among the model's."""
        return self.site_kind.name

    @property
    def stack(self) -> str:
        """ "encoder" or "decoder"."""
        return self.site_kind.stack

    @property
    def role(self) -> str:
        """One of models.layers.masks.ROLES."""
        return self.site_kind.role

    @property
    def query_stream(self) -> str:
        return self.site_kind.query_stream

    @property
    def key_stream(self) -> str:
        return self.site_kind.key_stream

    @property
    def layer(self) -> int:
        """The layer's number, from 0, within its stack."""
        return layer_of(self.name, self.number)

    @property
    def n_heads(self) -> int:
        return self.out.shape[1]

    @property
    def d_head(self) -> int:
        return self.deferred("q").shape[3]

    @property
    def n_query(self) -> int:
        return self.out.shape[2]

    @property
    def n_key(self) -> int:
        return self.deferred("k").shape[2]

    def deferred(self, part: str) -> Tensor | Product:
        """q, k or v without working it out."""
        return getattr(self, f"_{part}")

    def allowed(
        self, batch: int = 0, head: int | None = 0, rows: Rows = None
    ) -> Bool[Tensor, "*head query key"]:
        """True where the mask lets the query see the key, in one head or (None) in all."""
        allowed = self.mask.expanded(batch, head, self.n_query, self.n_key)[
            ..., rows or slice(None), :
        ]
        return allowed if head is not None else allowed.expand(self.n_heads, *allowed.shape[-2:])

    def blocked_by(self, query: int, key: int, batch: int = 0, head: int = 0) -> list[str]:
        """Names of the mask layers that block this cell; empty if it is open."""
        return self.mask.blocked_by(query, key, self.n_query, self.n_key, batch, head)

    def read(self, *parts: str) -> AttentionSite:
        """The same with these of q, k and v worked out, for whoever asks for one head after the other."""
        return replace(
            self,
            **{
                part: getattr(self, part) if part in parts else self.deferred(part)
                for part in "qkv"
            },
        )

    def scores(
        self, head: int | None = None, batch: int = 0, rows: Rows = None, n_key: int | None = None
    ) -> Float[Tensor, "*head query key"]:
        """Scaled similarity and the named terms, before the mask, of one head or of all; of all queries or a slice, and of the
        first `n_key` keys, all if None. Raises ValueError for given weights."""
        self._need_causes("scores")
        q, k = self._part("q", head, batch), self._part("k", head, batch)
        scores = self.similarity(q[..., rows or slice(None), :], k[..., :n_key, :])
        if self.terms:
            queries = torch.arange(self.n_query)[rows or slice(None)] + (
                self.n_key - self.n_query
            )  # a cache's come before
            scores = (
                scores
                + sum(term.scores(head, queries, self.n_key, batch) for term in self.terms)[
                    ..., :n_key
                ]
            )
        return scores

    def weights(
        self, head: int | None = None, batch: int = 0, rows: Rows = None
    ) -> Float[Tensor, "*head query key"]:
        """softmax of the masked scores, after edits. Rows sum to 1; a row with nothing allowed is all zeros."""
        if self.given_weights is not None:
            return self.given_weights[batch][slice(None) if head is None else head][
                ..., rows or slice(None), :
            ]
        allowed = self.allowed(batch, head, rows)
        weights = masked_softmax(self.scores(head, batch, rows), allowed)
        if not any(edit.changes("weights") for edit in self.edits):
            return weights
        part = self._edited_part(head, batch, rows, weights, allowed)
        return _in_part(edited_weights, self.edits, weights, part)

    def head_out(
        self, head: int | None = None, batch: int = 0, rows: Rows = None
    ) -> Float[Tensor, "*head query d_head"]:
        """weights · v, after edits, before W_O. Raises ValueError for given weights."""
        self._need_causes("head_out")
        return self.mixed(self.weights(head, batch, rows), head, batch, rows)

    def mixed(
        self,
        weights: Float[Tensor, "*head query key"],
        head: int | None = None,
        batch: int = 0,
        rows: Rows = None,
    ) -> Float[Tensor, "*head query d_head"]:
        """What one head, or (None) all, passes on of the values with these weights, its own: weights · v, after edits."""
        head_out = weights @ self._part("v", head, batch)
        if not any(edit.changes("head_out") for edit in self.edits):
            return head_out
        allowed = self.allowed(batch, head, rows)
        part = self._edited_part(head, batch, rows, weights, allowed)
        return _in_part(edited_head_out, self.edits, head_out, part)

    def _edited_part(
        self, head: int | None, batch: int, rows: Rows, weights: Tensor, allowed: Tensor
    ) -> AttentionPart:
        heads = range(self.n_heads) if head is None else (head,)
        queries = range(self.mask.start, self.mask.start + self.n_query)[rows or slice(None)]
        lead = (None,) if head is None else (None, None)
        return AttentionPart(
            (batch,),
            heads,
            queries,
            self.n_key,
            weights.device,
            lambda: weights[lead],
            lambda: self._part("v", head, batch)[lead],
            allowed[lead],
        )

    def _need_causes(self, wanted: str) -> None:
        if not self.has_causes:
            raise ValueError(
                f"{self.name} has no {wanted}: its library handed out finished weights, and not what they come from"
            )

    def _part(self, part: str, head: int | None, batch: int) -> Tensor:
        kept = self.deferred(part)
        if head is None:
            return per_head(getattr(self, part)[batch], self.n_heads, 0)
        group = self.n_heads // kept.shape[1]
        return (
            kept.read_head(batch, head // group)
            if isinstance(kept, Product)
            else kept[batch, head // group]
        )


def layer_of(path: str, number: int | None = None) -> int:
    """Return the number of the layer that an attention at `path` belongs to, from 0, if `number` does not say it."""
    if number is not None:
        return number
    return next((int(part) for part in path.split(".") if part.isdigit()), 0)


def per_head(t: Tensor, n_heads: int, axis: int) -> Tensor:
    """Repeat keys or values along the axis of their heads, for each head of the group that shares them."""
    group = n_heads // t.shape[axis]
    return t.repeat_interleave(group, dim=axis) if group > 1 else t


def _in_part(
    edited: Callable[[Edits, Tensor, AttentionPart], Tensor],
    edits: Edits,
    t: Float[Tensor, "*head query x"],
    part: AttentionPart,
) -> Float[Tensor, "*head query x"]:
    """Apply edits to one head or all, of one batch row."""
    return edited(edits, t.view(1, -1, *t.shape[-2:]), part).view(t.shape)
