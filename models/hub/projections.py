"""Where the q, k and v of an attention come from: held against the products x·Wᵀ + b that were worked out just before, by the
memory they lie in. What is a view of such a product is that product; nothing is concluded from a name."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

REMEMBERED = 8  # products; between an attention's projections and its call lie few others


@dataclass(frozen=True)
class Linear:
    """y = x·weightᵀ + bias."""

    x: Tensor
    weight: Tensor
    bias: Tensor | None
    y: Tensor


@dataclass(frozen=True)
class Origin:
    """q, k or v as x·weightᵀ + bias, split into heads; x is (batch, token, feature)."""

    x: Tensor
    weight: Tensor
    bias: Tensor | None


def linear_of(
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], y: Any
) -> Linear | None:
    """This call as a product with a matrix, if it is one."""
    if func is F.linear:
        x, weight, bias = (
            *args,
            *(kwargs.get(name) for name in ("input", "weight", "bias")[len(args) :]),
        )
        return Linear(x, weight, bias, y)
    if func is torch.addmm and len(args) == 3 and args[0].dim() == 1:
        bias, x, weight = args
        return Linear(x, weight.T, bias, y)
    return None


class Linears:
    """The last products of a pass."""

    def __init__(self) -> None:
        self._last: deque[Linear] = deque(maxlen=REMEMBERED)

    def add(self, linear: Linear) -> None:
        self._last.append(linear)

    def origin(self, t: Tensor) -> Origin | None:
        """Of q, k or v, (batch, head, token, d_head); None where it is no view of a product, or heads do not lie side by side."""
        return next(
            (found for linear in reversed(self._last) if (found := _origin(linear, t)) is not None),
            None,
        )


def _origin(linear: Linear, t: Tensor) -> Origin | None:
    y, (batch, n_heads, n, d_head) = linear.y, t.shape
    width = y.shape[-1]
    if not same_memory(y, t) or not y.is_contiguous() or y.numel() != batch * n * width:
        return None
    first = t.storage_offset() - y.storage_offset()
    wanted = zip(t.shape, t.stride(), (n * width, d_head, width, 1), strict=True)
    if not 0 <= first <= width - n_heads * d_head or any(
        size > 1 and stride != step for size, stride, step in wanted
    ):
        return None
    own = slice(first, first + n_heads * d_head)
    x = linear.x.reshape(batch, n, -1)
    return Origin(
        x.detach(),
        linear.weight[own].detach(),
        None if linear.bias is None else linear.bias[own].detach(),
    )


def reads_joined(linear: Linear, out: Tensor) -> bool:
    """Return True if this product is of the heads' outputs (batch, head, token, d_head), side by side."""
    batch, n_heads, n, d_head = out.shape
    if linear.x.numel() != out.numel() or linear.x.shape[-1] != n_heads * d_head:
        return False
    x, joined = linear.x.reshape(batch, n, -1), out.transpose(1, 2)
    is_view = (
        joined.is_contiguous()
        and same_memory(x, out)
        and x.storage_offset() == out.storage_offset()
    )
    return is_view or torch.equal(x, joined.flatten(2))


def same_memory(a: Tensor, b: Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
