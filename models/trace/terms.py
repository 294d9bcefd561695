"""Named terms that are added to the scores, stored as a table and a rule instead of n² numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

AxisIndex = int


@dataclass(frozen=True)
class ScoreTerm:
    """A named term of the scores, added before the mask, read for some queries of one batch row."""

    name: str

    @property
    def divisor(self) -> float | None:
        """The number that the term is divided by, such as √d_head; None if it is added as it is."""
        return None

    @property
    def is_zero(self) -> bool:
        """True if it is known to add nothing."""
        return False

    def scores(
        self, head: int | None, queries: Int[Tensor, " query"], n_key: int, batch: int = 0
    ) -> Float[Tensor, "*head query key"]:
        """Return the term of one head, or (None) of all, for the queries at these positions."""
        raise NotImplementedError

    def products(self, head: int, query: int, n_key: int, batch: int = 0) -> Float[Tensor, "key d"]:
        """Return the addends that sum to this term for one head and query, one row per key.

        A term that is not a product has one addend per key.
        """
        return self.scores(head, torch.tensor([query]), n_key, batch)[0][:, None]

    def map_tensors(
        self, per_token: Callable[[Tensor, AxisIndex], Tensor], shared: Callable[[Tensor], Tensor]
    ) -> ScoreTerm:
        """Apply `per_token(tensor, token axis)` to tensors of tokens, `shared` to the others."""
        raise NotImplementedError


@dataclass(frozen=True)
class DistanceTerm(ScoreTerm):
    """A term that depends on the distance between query and key, as T5's bias or ALiBi's slope.

    `table` is (head, distance). A key d positions after its query (negative: before it) reads
    column d − least; distances beyond the table read its first or last column.
    """

    table: Float[Tensor, "head distance"]
    least: int

    def scores(
        self, head: int | None, queries: Int[Tensor, " query"], n_key: int, batch: int = 0
    ) -> Float[Tensor, "*head query key"]:
        column = (_distance(queries, n_key) - self.least).clamp(0, self.table.shape[1] - 1)
        return (self.table if head is None else self.table[head])[..., column]

    def map_tensors(
        self, per_token: Callable[[Tensor, AxisIndex], Tensor], shared: Callable[[Tensor], Tensor]
    ) -> DistanceTerm:
        return replace(self, table=shared(self.table))


@dataclass(frozen=True)
class RelativePositionTerm(ScoreTerm):
    """scale · q_i·r_(i−j): the query against a vector of the distance instead of the key.

    Terms b and d of Dai et al. 2019 (§3.3); Yang et al. 2019 (§2.4). `q` is W_Q·x plus the term's
    own bias; `keys` holds W_R·r for keys `least`, `least` + 1 … positions after their query.
    """

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
        self, head: int | None, queries: Int[Tensor, " query"], n_key: int, batch: int = 0
    ) -> Float[Tensor, "*head query key"]:
        q, keys = (
            (self.q[batch], self.keys) if head is None else (self.q[batch, head], self.keys[head])
        )
        met = q[..., queries, :] @ keys.transpose(-1, -2) * self.scale  # (…, query, distance)
        column = _distance(queries, n_key) - self.least
        return met.gather(-1, column.expand(*met.shape[:-1], n_key))

    def map_tensors(
        self, per_token: Callable[[Tensor, AxisIndex], Tensor], shared: Callable[[Tensor], Tensor]
    ) -> RelativePositionTerm:
        return replace(self, q=per_token(self.q, 2), keys=shared(self.keys))


@dataclass(frozen=True)
class SegmentTerm(ScoreTerm):
    """scale · q_i·e, where e tells if both share a segment (Yang et al. 2019, §2.5).

    `q` is as in RelativePositionTerm. `keys` is (head, 2, d_head): the vector for the same segment,
    then that for different ones. `segments` is (batch, token), shared by queries and keys.
    """

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
        self, head: int | None, queries: Int[Tensor, " query"], n_key: int, batch: int = 0
    ) -> Float[Tensor, "*head query key"]:
        q, keys = (
            (self.q[batch], self.keys) if head is None else (self.q[batch, head], self.keys[head])
        )
        met = q[..., queries, :] @ keys.transpose(-1, -2) * self.scale  # (…, query, 2)
        segments = self.segments[batch]
        differs = segments[queries, None] != segments[None, :n_key]
        return torch.where(differs, met[..., 1:], met[..., :1])

    def map_tensors(
        self, per_token: Callable[[Tensor, AxisIndex], Tensor], shared: Callable[[Tensor], Tensor]
    ) -> SegmentTerm:
        return replace(
            self,
            q=per_token(self.q, 2),
            keys=shared(self.keys),
            segments=per_token(self.segments, 1).long(),
        )


def _distance(queries: Int[Tensor, " query"], n_key: int) -> Int[Tensor, "query key"]:
    """Return how many positions each key lies after each query; negative before it."""
    return torch.arange(n_key)[None] - queries[:, None]
