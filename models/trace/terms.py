"""What is added to the scores besides the similarity, kept by its causes: a table and a rule, not n² numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

Axis = int


@dataclass(frozen=True)
class ScoreTerm:
    """One named addend of the scores, before the mask. A term is asked for some queries of one batch row at a time."""

    name: str

    @property
    def divisor(self) -> float | None:
        """What it is divided by together with q·k, √d_head; None for a term that is added as it is."""
        return None

    def scores(
        self, head: int | None, queries: Int[Tensor, query], n_key: int, batch: int = 0
    ) -> Float[Tensor, "*head query key"]:
        """The term of one head, or (None) of all, for the queries at these positions."""
        raise NotImplementedError

    def products(self, head: int, query: int, n_key: int, batch: int = 0) -> Float[Tensor, "key d"]:
        """The numbers that add up to this term of one head and query, a row a key: one each where the term is no product."""
        return self.scores(head, torch.tensor([query]), n_key, batch)[0][:, None]

    def map_tensors(
        self, per_token: Callable[[Tensor, Axis], Tensor], shared: Callable[[Tensor], Tensor]
    ) -> ScoreTerm:
        """What is kept for each token after `per_token`, along the axis of its tokens; what all rows share after `shared`."""
        raise NotImplementedError


@dataclass(frozen=True)
class DistanceTerm(ScoreTerm):
    """By how far a key stands from its query alone, as T5's relative bias and ALiBi's slope are: row `least + …` of a table.

    `table` is (head, distance); a key `d` positions after its query (negative before) gets column d − least, held to the ends."""

    table: Float[Tensor, "head distance"]
    least: int

    def scores(
        self, head: int | None, queries: Int[Tensor, query], n_key: int, batch: int = 0
    ) -> Float[Tensor, "*head query key"]:
        column = (_distance(queries, n_key) - self.least).clamp(0, self.table.shape[1] - 1)
        return (self.table if head is None else self.table[head])[..., column]

    def map_tensors(
        self, per_token: Callable[[Tensor, Axis], Tensor], shared: Callable[[Tensor], Tensor]
    ) -> DistanceTerm:
        return replace(self, table=shared(self.table))


@dataclass(frozen=True)
class RelativePositionTerm(ScoreTerm):
    """scale · q_i·r_(i−j): the query meets a vector that stands for the distance, not for the key (Dai et al. 2019, eq. of §3.3,
    terms b and d; Yang et al. 2019, §2.4).

    `q` is (batch, head, query, d_head), W_Q·x with the term's own bias; `keys` is (head, distance, d_head), W_R·r for a key
    `least`, `least` + 1 … positions after its query."""

    q: Float[Tensor, "batch head query d_head"]
    keys: Float[Tensor, "head distance d_head"]
    least: int
    scale: float

    @property
    def divisor(self) -> float:
        return 1 / self.scale

    def products(self, head: int, query: int, n_key: int, batch: int = 0) -> Float[Tensor, "key d"]:
        column = _distance(torch.tensor([query]), n_key)[0] - self.least
        return self.scale * self.q[batch, head, query] * self.keys[head, column]

    def scores(
        self, head: int | None, queries: Int[Tensor, query], n_key: int, batch: int = 0
    ) -> Float[Tensor, "*head query key"]:
        q, keys = (
            (self.q[batch], self.keys) if head is None else (self.q[batch, head], self.keys[head])
        )
        met = q[..., queries, :] @ keys.transpose(-1, -2) * self.scale  # (…, query, distance)
        column = _distance(queries, n_key) - self.least
        return met.gather(-1, column.expand(*met.shape[:-1], n_key))

    def map_tensors(
        self, per_token: Callable[[Tensor, Axis], Tensor], shared: Callable[[Tensor], Tensor]
    ) -> RelativePositionTerm:
        return replace(self, q=per_token(self.q, 2), keys=shared(self.keys))


@dataclass(frozen=True)
class SegmentTerm(ScoreTerm):
    """scale · q_i·e, e by whether query and key stand in the same segment (Yang et al. 2019, §2.5).

    `q` as in RelativePositionTerm; `keys` is (head, 2, d_head): the vector of the same segment, then of different ones;
    `segments` is (batch, token), of queries and keys alike."""

    q: Float[Tensor, "batch head query d_head"]
    keys: Float[Tensor, "head 2 d_head"]
    segments: Int[Tensor, "batch token"]
    scale: float

    @property
    def divisor(self) -> float:
        return 1 / self.scale

    def products(self, head: int, query: int, n_key: int, batch: int = 0) -> Float[Tensor, "key d"]:
        segments = self.segments[batch]
        differs = (segments[query] != segments[:n_key]).long()
        return self.scale * self.q[batch, head, query] * self.keys[head, differs]

    def scores(
        self, head: int | None, queries: Int[Tensor, query], n_key: int, batch: int = 0
    ) -> Float[Tensor, "*head query key"]:
        q, keys = (
            (self.q[batch], self.keys) if head is None else (self.q[batch, head], self.keys[head])
        )
        met = q[..., queries, :] @ keys.transpose(-1, -2) * self.scale  # (…, query, 2)
        segments = self.segments[batch]
        differs = segments[queries, None] != segments[None, :n_key]
        return torch.where(differs, met[..., 1:], met[..., :1])

    def map_tensors(
        self, per_token: Callable[[Tensor, Axis], Tensor], shared: Callable[[Tensor], Tensor]
    ) -> SegmentTerm:
        return replace(
            self,
            q=per_token(self.q, 2),
            keys=shared(self.keys),
            segments=per_token(self.segments, 1).long(),
        )


def _distance(queries: Int[Tensor, query], n_key: int) -> Int[Tensor, "query key"]:
    """How far each key stands after each query; negative before it."""
    return torch.arange(n_key)[None] - queries[:, None]
