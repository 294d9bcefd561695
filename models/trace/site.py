"""One attention of one run, stored as q, k, v, score terms, mask and similarity in O(n·d).

Scores, weights and head outputs are derived on demand, for one head and a slice of its queries, so
that a long text never creates an n × n tensor that nobody looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.layers.masks import Mask, SiteKind
from models.layers.similarity import AttentionSimilarity, LearnedSimilarity, masked_softmax
from models.trace.edits.base import (
    AttentionPart,
    Edits,
    edited_head_out,
    edited_value_weights,
    edited_weights,
)
from models.trace.lazy import LazyLinear, LazyTensor, read_lazy
from models.trace.terms import ScoreTerm

RowSlice = slice | None  # of queries; None for all
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
        """(weight, bias) of W_Q W_K W_V W_O, without gradients; empty if q is not x·W."""
        ...


@dataclass(frozen=True)
class AttentionSite:
    """An attention with everything that its scores, weights and outputs are derived from.

    q is (batch, head, query, d_head); k and v are (batch, key head, key, d_head). With fewer key
    heads than heads, a group of heads shares one. `out` is the result of the fused kernel, (batch,
    head, query, d_head).

    `given_weights` (batch, head, query, key) are those that the model computed itself, if they are
    available. If nothing else is known, q, k and v have no features, and `why_given` says why.
    """

    name: str
    site_kind: SiteKind
    x: Tensor  # input of W_Q, (batch, query, d_model)
    memory: Tensor  # input of W_K and W_V, (batch, key, d_model); only new positions with a cache
    lazy_q: LazyTensor
    lazy_k: LazyTensor
    lazy_v: LazyTensor
    out: Tensor
    mask: Mask
    similarity: AttentionSimilarity
    projections: Mapping[str, Projection]  # by W_Q W_K W_V W_O; empty if q is not x·W
    query_tokens: tuple[str, ...] = ()
    key_tokens: tuple[str, ...] = ()
    terms: tuple[ScoreTerm, ...] = ()
    number: int | None = None  # layer number, if the name does not contain it
    dtype: torch.dtype = torch.float32  # that the model ran in
    given_weights: Tensor | None = None
    why_given: str = "its library returns finished weights only"
    edits: Edits = ()  # that apply here; the mask is already the edited one
    W_O: Projection | None = None  # where it is known although `projections` is empty

    @property
    def q(self) -> Float[Tensor, "batch head query d_head"]:
        return read_lazy(self.lazy_q)

    @property
    def k(self) -> Float[Tensor, "batch key_head key d_head"]:
        return read_lazy(self.lazy_k)

    @property
    def v(self) -> Float[Tensor, "batch key_head key d_head"]:
        return read_lazy(self.lazy_v)

    @property
    def has_causes(self) -> bool:
        """True if q, k, v and scores are known, False if only weights are."""
        return self.given_weights is None or self.lazy_q.shape[3] > 0

    @property
    def edits_weights(self) -> bool:
        """True if an edit may replace the softmax of the masked scores."""
        return any(edit.changes("weights") for edit in self.edits)

    @property
    def kind(self) -> str:
        """Name of the attention's kind, and of its mask in the model."""
        return self.site_kind.name

    @property
    def stack(self) -> str:
        """The stack that it belongs to, "encoder" or "decoder"."""
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
        """Number of the layer within its stack, from 0."""
        return layer_of(self.name, self.number)

    @property
    def n_heads(self) -> int:
        return self.out.shape[1]

    @property
    def d_head(self) -> int:
        return self.lazy_q.shape[3]

    @property
    def n_query(self) -> int:
        return self.out.shape[2]

    @property
    def n_key(self) -> int:
        return self.lazy_k.shape[2]

    def allowed(
        self, batch: int = 0, head: int | None = 0, rows: RowSlice = None
    ) -> Bool[Tensor, "*head query key"]:
        """Return the mask of one head, or (None) of all heads; True = may attend."""
        allowed = self.mask.expanded(batch, head, self.n_query, self.n_key)[
            ..., rows or slice(None), :
        ]
        return allowed if head is not None else allowed.expand(self.n_heads, *allowed.shape[-2:])

    def blocked_by(self, query: int, key: int, batch: int = 0, head: int = 0) -> list[str]:
        """Return the names of the mask layers that block this cell; empty if it is open."""
        return self.mask.blocked_by(query, key, self.n_query, self.n_key, batch, head)

    def read(self, *parts: str) -> AttentionSite:
        """Return the site with these of q, k and v worked out, to read one head after the other."""
        return replace(self, **{f"lazy_{part}": getattr(self, part) for part in parts})

    def scores(
        self,
        head: int | None = None,
        batch: int = 0,
        rows: RowSlice = None,
        n_key: int | None = None,
    ) -> Float[Tensor, "*head query key"]:
        """Return the scaled similarity plus the named terms, before the mask.

        `head` is None for all heads, `rows` for all queries; only the first `n_key` keys are
        scored, all by default.

        Raises:
            ValueError: only the weights of this attention are known.
        """
        self._need_causes("scores")
        q, k = self._head(self.lazy_q, head, batch), self._head(self.lazy_k, head, batch)
        scores = self.similarity(q[..., rows or slice(None), :], k[..., :n_key, :])
        if not self.terms:
            return scores
        n_cached = self.n_key - self.n_query  # keys of a cache precede the queries
        queries = torch.arange(self.n_query)[rows or slice(None)] + n_cached
        terms = [term.scores(head, queries, self.n_key, batch) for term in self.terms]
        return scores + reduce(add, terms)[..., :n_key]

    def weights(
        self, head: int | None = None, batch: int = 0, rows: RowSlice = None
    ) -> Float[Tensor, "*head query key"]:
        """Return the softmax of the masked scores, after edits.

        Rows sum to 1; a row with nothing allowed is all zeros.
        """
        if self.given_weights is not None:
            return self.given_weights[batch][slice(None) if head is None else head][
                ..., rows or slice(None), :
            ]
        allowed = self.allowed(batch, head, rows)
        weights = masked_softmax(self.scores(head, batch, rows), allowed)
        if not self.edits_weights:
            return weights
        part = self._edited_part(head, batch, rows, weights, allowed)
        return _in_part(edited_weights, self.edits, weights, part)

    def head_out(
        self, head: int | None = None, batch: int = 0, rows: RowSlice = None
    ) -> Float[Tensor, "*head query d_head"]:
        """Return weights · v, after edits, before W_O.

        Raises:
            ValueError: only the weights of this attention are known.
        """
        self._need_causes("head_out")
        return self.mixed(self.weights(head, batch, rows), head, batch, rows)

    def mixed(
        self,
        weights: Float[Tensor, "*head query key"],
        head: int | None = None,
        batch: int = 0,
        rows: RowSlice = None,
    ) -> Float[Tensor, "*head query d_head"]:
        """Return weights · v, after edits, for weights that have been computed already."""
        head_out = self.factors(weights, head, batch, rows) @ self._head(self.lazy_v, head, batch)
        if not any(edit.changes("head_out") for edit in self.edits):
            return head_out
        part = self._edited_part(head, batch, rows, weights, self.allowed(batch, head, rows))
        return _in_part(edited_head_out, self.edits, head_out, part)

    def factors(
        self,
        weights: Float[Tensor, "*head query key"],
        head: int | None = None,
        batch: int = 0,
        rows: RowSlice = None,
    ) -> Float[Tensor, "*head query key"]:
        """Return what the values are multiplied by: the weights, unless an edit says otherwise."""
        if not any(edit.changes("value_weights") for edit in self.edits):
            return weights
        part = self._edited_part(head, batch, rows, weights, self.allowed(batch, head, rows))
        return _in_part(edited_value_weights, self.edits, weights, part)

    def _edited_part(
        self, head: int | None, batch: int, rows: RowSlice, weights: Tensor, allowed: Tensor
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
            lambda: self._head(self.lazy_v, head, batch)[lead],
            allowed[lead],
            self.name,
        )

    def _need_causes(self, what: str) -> None:
        if not self.has_causes:
            raise ValueError(f"{self.name} has no {what}, only weights: {self.why_given}")

    def _head(self, part: LazyTensor, head: int | None, batch: int) -> Tensor:
        """Return one head, or (None) all, of q, k or v."""
        if head is None:
            return per_head(read_lazy(part)[batch], self.n_heads, 0)
        head //= self.n_heads // part.shape[1]
        return part.read_head(batch, head) if isinstance(part, LazyLinear) else part[batch, head]


def layer_of(path: str, number: int | None = None) -> int:
    """Return the layer number (from 0) of the attention at `path`, unless `number` gives it."""
    if number is not None:
        return number
    return next((int(part) for part in path.split(".") if part.isdigit()), 0)


def per_head(
    t: Float[Tensor, "*b key_head key d_head"], n_heads: int, axis: int
) -> Float[Tensor, "*b head key d_head"]:
    """Repeat keys or values along the axis of their heads, once for each head that shares them."""
    group = n_heads // t.shape[axis]
    return t.repeat_interleave(group, dim=axis) if group > 1 else t


def _in_part(
    edited: Callable[[Edits, Tensor, AttentionPart], Tensor],
    edits: Edits,
    t: Float[Tensor, "*head query x"],
    part: AttentionPart,
) -> Float[Tensor, "*head query x"]:
    """Apply edits to one head or all heads of one batch row."""
    return edited(edits, t.view(1, -1, *t.shape[-2:]), part).view(t.shape)
