"""Attention rows of a run, position by position, in all heads of one attention.

They are collected step by step, or derived on demand from a single pass, so that those of a long
text are never all in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from models.analysis.slices import row_slices, slice_with
from models.trace import AttentionSite


@dataclass(frozen=True)
class StepRows(Sequence):
    """Attention rows collected step by step; `rows[i]` is (head, key), over the keys at that step.

    `closed[i]` is True for each head that could attend to no key at that step; None if there is
    none.
    """

    rows: tuple[Tensor, ...]
    closed: tuple[Tensor | None, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> Float[Tensor, "head key"]:
        return self.rows[i]

    @property
    def n_heads(self) -> int:
        return len(self.rows[0])

    @property
    def n_key(self) -> int:
        """Number of keys at the last step."""
        return max(row.shape[1] for row in self.rows)

    def weights(self, head: int | None = None, block: int = 1) -> Float[Tensor, "position key"]:
        """Return each position's weights in one head (None: mean of heads), 0 beyond its keys.

        Only the largest weight of each `block` of keys is returned.
        """
        rows = [row.mean(0) if head is None else row[head] for row in self.rows]
        return torch.stack(
            [_largest(F.pad(row, (0, self.n_key - len(row))), block) for row in rows]
        )

    @cached_property
    def sums(self) -> Float[Tensor, " _"]:
        """Sum of every row of every head that may attend to a key."""
        closed = self.closed or (None,) * len(self.rows)
        sums = [row.sum(-1) for row in self.rows]
        return torch.cat(
            [each if mask is None else each[~mask] for each, mask in zip(sums, closed, strict=True)]
        )


@dataclass(frozen=True)
class PassRows(Sequence):
    """Attention rows of one pass: those of the `n` queries from position `first` on.

    In masked self-attention a query has the keys up to its own position.
    """

    site: AttentionSite
    first: int
    n: int

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Float[Tensor, "head key"]:
        if not 0 <= i < self.n:
            raise IndexError(i)
        rows, place = slice_with(self.site, self.first + i, self.n_heads)
        weights = self.site.weights(rows=rows)[:, place].float().cpu()
        return weights[:, : self.first + i + 1] if self._looks_back else weights

    @property
    def n_heads(self) -> int:
        return self.site.n_heads

    @property
    def n_key(self) -> int:
        """Number of keys of the last query."""
        return self.first + self.n if self._looks_back else self.site.n_key

    def weights(self, head: int | None = None, block: int = 1) -> Float[Tensor, "position key"]:
        """Return the rows as `StepRows.weights` does."""
        slabs = (weights.mean(0) if head is None else weights for weights in self._slabs(head))
        return torch.cat([_largest(weights, block) for weights in slabs])

    @cached_property
    def sums(self) -> Float[Tensor, " _"]:
        """Sum of every row of every head that may attend to a key."""
        sums = torch.cat([weights.sum(-1) for weights in self._slabs()], -1)  # (head, position)
        closed = closed_rows(self.site, sums, slice(self.first, self.first + self.n))
        return sums.flatten() if closed is None else sums[~closed]

    @cached_property
    def _looks_back(self) -> bool:
        """True if no query may attend to a key after it, so that rows end at their own position."""
        allowed = self.site.mask.allowed
        return self.site.role == "self" and allowed is not None and not bool(allowed.triu(1).any())

    def _slabs(self, head: int | None = None) -> Iterator[Float[Tensor, "*head position key"]]:
        """Yield the weights of one head, or (None) of all, some positions at a time."""
        site, end = self.site.read("q", "k"), self.first + self.n
        for queries in row_slices(site, site.n_heads if head is None else 1):
            start, stop = max(queries.start, self.first), min(queries.stop, end)
            if start < stop:
                weights = site.weights(head, rows=queries)[
                    ..., start - queries.start : stop - queries.start, : self.n_key
                ]
                yield (weights.tril(start) if self._looks_back else weights).float().cpu()


def closed_rows(
    site: AttentionSite, sums: Float[Tensor, "head position"], rows: slice
) -> Bool[Tensor, "head position"] | None:
    """Return which rows may attend to no key; None if none. `sums` are those of their weights."""
    if bool((sums != 0).all()):
        return None
    closed = ~site.allowed(head=None, rows=rows).any(-1).cpu()
    return closed if bool(closed.any()) else None


def _largest(weights: Float[Tensor, "*row key"], block: int) -> Float[Tensor, "*row block"]:
    """Return the largest weight of each `block` of keys; the last block may be shorter."""
    return (
        F.pad(weights, (0, -weights.shape[-1] % block)).unflatten(-1, (-1, block)).amax(-1)
        if block > 1
        else weights
    )
