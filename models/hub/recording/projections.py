"""Find the products x·Wᵀ + b that the q, k and v of an attention are views of.

They are compared by memory with the products computed just before; names play no part.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor

from models.trace.lazy import LazyLinear
from models.trace.recorder import MAX_KEPT_ELEMENTS

LINEAR, ADDMM = F.linear, torch.addmm  # replaced while a pass is watched
# products; few others lie between an attention's projections and its call
N_REMEMBERED_PRODUCTS = 8

Versions = tuple[int, ...] | None


@dataclass(frozen=True)
class Linear:
    """y = x·weightᵀ + bias."""

    x: Tensor
    weight: Tensor
    bias: Tensor | None
    y: Tensor
    versions: Versions  # of x and y

    def holds(self) -> bool:
        """Return True if neither x nor y has been changed in place since."""
        if self.versions is not None:
            return (self.x._version, self.y._version) == self.versions
        y = LINEAR(self.x, self.weight, self.bias)
        return torch.allclose(y, self.y, rtol=1e-3, atol=1e-3 * float(y.abs().max()))


def versions_of(t: Shaped[Tensor, ...]) -> Versions:
    """Return how often a tensor was changed in place; None in inference mode."""
    try:
        return (t._version,)
    except RuntimeError:
        return None


def _versions_of_two(x: Tensor, y: Tensor) -> Versions:
    try:
        return x._version, y._version
    except RuntimeError:
        return None


@dataclass(frozen=True)
class Origin:
    """q, k or v as x·weightᵀ + bias, split into heads; x is (batch, token, feature)."""

    x: Tensor
    weight: Tensor
    bias: Tensor | None


@dataclass(frozen=True)
class Copy:
    """q, k or v as `factor` times `part`, which are the heads of a product."""

    origin: Origin
    part: Tensor
    factor: float


def linear_of(
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], y: Any
) -> Linear | None:
    """Return a call as a product with a matrix, if it is one."""
    if func is LINEAR:
        inputs = dict(zip(("input", "weight", "bias"), args, strict=False)) | dict(kwargs)
        x, weight, bias = inputs["input"], inputs["weight"], inputs.get("bias")
    elif func is ADDMM and len(args) == 3 and args[0].dim() == 1:
        bias, x, weight = args[0], args[1], args[2].T
    else:
        return None
    return Linear(x, weight, bias, y, _versions_of_two(x, y))


class Linears:
    """The last products of a pass."""

    def __init__(self) -> None:
        self._last: deque[Linear] = deque(maxlen=N_REMEMBERED_PRODUCTS)
        # inputs of one attention: their address, their versions, and copies
        self._copies: deque[tuple[Tensor, int, Versions, Tensor]] = deque(maxlen=3)

    def add(self, linear: Linear) -> None:
        self._last.append(linear)

    def copy(self, x: Float[Tensor, "*places feature"]) -> Float[Tensor, "*places feature"]:
        """Return a copy of an input, which the model may change in place.

        Inputs that share their memory and have not been changed share one copy.
        """
        versions, at = versions_of(x), x.data_ptr()
        for original, where, before, copy in reversed(self._copies):
            is_same = original is x or (where == at and same_view(original, x))
            if is_same and (before == versions if versions else torch.equal(copy, x)):
                return copy
        self._copies.append((x, at, versions, x.detach().clone()))
        return self._copies[-1][-1]

    def origin(self, t: Float[Tensor, "batch head n d_head"]) -> Origin | None:
        """Return the product that made q, k or v, (batch, head, token, d_head).

        None if it is not a view of a product, or heads are not side by side.
        """
        for linear in reversed(self._last):
            if (rows := _rows_of(linear, t)) is not None and linear.holds():
                return self._of_rows(linear, rows, t.shape[0], t.shape[2])
        return None

    def scaled_copy(self, t: Float[Tensor, "batch head n d_head"]) -> Copy | None:
        """Return the product that q, k or v is a copy of, perhaps times a number."""
        if (origin := self.origin(t)) is not None:
            return Copy(origin, t, 1.0)
        for linear in reversed(self._last):
            for rows, part, factor, tokens_first in _copies(linear, t):
                if linear.holds():
                    origin = self._of_rows(linear, rows, t.shape[0], t.shape[2], tokens_first)
                    return Copy(origin, part, factor)
        return None

    def makes_rows(self, t: Float[Tensor, "batch head n d_head"]) -> bool:
        """Report whether a product has the texts of q, k or v in this order.

        It holds their first head, perhaps times a number, wherever that lies among its features.
        """
        (batch, _, n, d_head), head = t.shape, t[:, 0]
        for linear in reversed(self._last):
            y, width = linear.y, linear.y.shape[-1]
            if y.numel() == batch * n * width and not width % d_head and y.dtype == t.dtype:
                parts = y.reshape(batch, n, -1, d_head).unbind(2)
                if any(_factor(part, head) is not None for part in parts):
                    return linear.holds()
        return False

    def source(
        self,
        origin: Origin | None,
        t: Float[Tensor, "batch head n d_head"],
        inputs: Sequence[Shaped[Tensor, ...]],
    ) -> Float[Tensor, "batch n feature"]:
        """Return the input of q (or v); if unknown, that of the module, or else the heads."""
        if origin is not None:
            return origin.x
        batch, n = t.shape[0], t.shape[2]
        for x in inputs:
            if x.dim() == 3 and x.shape[:2] == (batch, n) and x.is_floating_point():
                return self.copy(x)
        return t.transpose(1, 2).flatten(2).detach()

    def _of_rows(
        self, linear: Linear, rows: slice, batch: int, n: int, tokens_first: bool = False
    ) -> Origin:
        x = self.copy(linear.x)
        return Origin(
            x.transpose(0, 1) if tokens_first else x.reshape(batch, n, -1),
            linear.weight[rows].detach(),
            None if linear.bias is None else linear.bias[rows].detach(),
        )


def _rows_of(linear: Linear, t: Tensor) -> slice | None:
    """Return the rows of a product's matrix that q, k or v is a view of; None if it is no view."""
    y, (batch, n_heads, n, d_head) = linear.y, t.shape
    width = y.shape[-1]
    if not same_memory(y, t) or not y.is_contiguous() or y.numel() != batch * n * width:
        return None
    first, steps = t.storage_offset() - y.storage_offset(), (n * width, d_head, width, 1)
    if not 0 <= first <= width - n_heads * d_head:
        return None
    if t.stride() != steps and any(
        size > 1 and stride != step
        for size, stride, step in zip(t.shape, t.stride(), steps, strict=True)
    ):
        return None
    return slice(first, first + n_heads * d_head)


def _copies(linear: Linear, t: Tensor) -> Iterator[tuple[slice, Tensor, float, bool]]:
    """Yield t as a copy of the heads of a product, side by side, times a number.

    Each is the rows of the matrix, the heads, the number, and whether tokens come before texts.
    """
    y, (batch, n_heads, n, d_head) = linear.y, t.shape
    width, size = y.shape[-1], n_heads * d_head
    if y.numel() != batch * n * width or width % size or y.dtype != t.dtype:
        return
    tokens_first = batch > 1 and tuple(y.shape[:2]) == (n, batch)
    rows = y.transpose(0, 1) if tokens_first else y.reshape(batch, n, width)
    for first in range(0, width, size):
        at = slice(first, first + size)
        part = rows[..., at].unflatten(-1, (n_heads, -1)).transpose(1, 2)
        if (factor := _factor(part, t)) is not None:
            yield at, part, factor, tokens_first


def _factor(one: Tensor, other: Tensor) -> float | None:
    """Return the number that one tensor is multiplied by in the other; None if there is none."""
    at = int(one.abs().argmax())
    factor = float(other.flatten()[at]) / (float(one.flatten()[at]) or 1.0)
    if factor == 0 or not math.isfinite(factor):
        return None
    limit = 4 * torch.finfo(one.dtype).eps * float(other.abs().max())
    return factor if bool(((one * factor - other).abs() <= limit).all()) else None


def reads_joined(
    linear: Linear, out: Float[Tensor, "batch head n d_head"], versions: Versions
) -> bool:
    """Return True if a product reads the joined head outputs as they were at these versions."""
    batch, n_heads, n, d_head = out.shape
    if linear.x.numel() != out.numel() or linear.x.shape[-1] != n_heads * d_head:
        return False
    if versions_of(out) != versions:  # it was changed in place
        return False
    x, concat = linear.x.reshape(batch, n, -1), out.transpose(1, 2)
    is_view = (
        concat.is_contiguous()
        and same_memory(x, out)
        and x.storage_offset() == out.storage_offset()
    )
    return is_view or torch.equal(x, concat.flatten(2))


def same_view(a: Shaped[Tensor, ...], b: Shaped[Tensor, ...]) -> bool:
    return a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride()


def same_memory(a: Shaped[Tensor, ...], b: Shaped[Tensor, ...]) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def defer_projection(
    origin: Origin | None, t: Float[Tensor, "batch head n d_head"]
) -> Tensor | LazyLinear:
    """Return a large tensor as its product, if the pass ran in float32, or else as it is."""
    if origin is None or t.numel() <= MAX_KEPT_ELEMENTS or t.dtype != torch.float32:
        return t.detach()
    return LazyLinear(origin.x, origin.weight, origin.bias, t.shape[1])


def undo_gqa_repeat(
    t: Float[Tensor, "batch head key d_head"], groups: int, n_heads: int
) -> Float[Tensor, "batch key_head key d_head"]:
    """Return keys or values without their copies for the heads of a group.

    A group has up to `groups` heads.
    """
    if t.shape[1] != n_heads:
        return t
    for group in range(groups, 1, -1):
        if n_heads % group == 0:
            one = t[:, ::group]
            if torch.equal(one.repeat_interleave(group, dim=1), t):
                return one
    return t
