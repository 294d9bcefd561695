"""Tensors of a recording that are worked out when read.

A feed-forward layer is four times as wide inside as its input, and the q, k and v of a long text
are one matrix product away from a residual stream that is stored anyway. Storing the factors of
such a product instead of the product costs neither memory nor time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


@dataclass(frozen=True)
class LazyLinear:
    """activation(x·Wᵀ + b), computed whenever it is read; x may itself be lazy.

    Reading raises RuntimeError if the weights have changed since, because the result would not be
    that of the recorded run.
    """

    x: LazyTensor  # (batch, token, feature)
    weight: Float[Tensor, "d_out d_in"]
    bias: Float[Tensor, " d_out"] | None
    n_heads: int | None = None  # split into (batch, head, token, d_head); None: not split
    activation: Callable[[Tensor], Tensor] | None = None
    version: int = field(init=False)  # number of in-place changes of the weights so far

    def __post_init__(self) -> None:
        object.__setattr__(self, "version", _version(self.weight))

    @classmethod
    def of(
        cls,
        linear: nn.Linear,
        x: LazyTensor,
        activation: Callable[[Tensor], Tensor] | None = None,
    ) -> LazyLinear:
        """Return activation(linear(x)), without gradients."""
        return cls(
            x.detach() if isinstance(x, Tensor) else x,
            linear.weight,
            linear.bias,
            activation=activation,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        batch, n, _ = self.x.shape
        if self.n_heads is None:
            return (batch, n, len(self.weight))
        return (batch, self.n_heads, n, len(self.weight) // self.n_heads)

    @torch.no_grad()
    def read(self) -> Float[Tensor, "*batch token d"]:
        """Return the whole tensor."""
        self._check()
        y = F.linear(read_lazy(self.x), self.weight, self.bias)
        y = y if self.activation is None else self.activation(y)
        return y if self.n_heads is None else y.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    @torch.no_grad()
    def read_head(self, batch: int, head: int) -> Float[Tensor, "token d_head"]:
        """Return one head of one batch row, without multiplying the others."""
        self._check()
        d_head = self.shape[3]
        rows = slice(head * d_head, (head + 1) * d_head)
        bias = None if self.bias is None else self.bias[rows]
        return F.linear(read_lazy(self.x)[batch], self.weight[rows], bias)

    def map_tensors(self, transform: Callable[[Tensor], Tensor]) -> LazyLinear:
        """Return the product with `transform` applied to x.

        The weights move to the device and dtype of the new x.
        """
        self._check()
        x = map_lazy(self.x, transform)
        if x is self.x:
            return self
        like = x.weight if isinstance(x, LazyLinear) else x
        return replace(
            self,
            x=x,
            weight=self.weight.to(like),
            bias=None if self.bias is None else self.bias.to(like),
        )

    def _check(self) -> None:
        if _version(self.weight) != self.version:
            raise RuntimeError(
                "the model's weights have been changed since this run was recorded; record it again"
            )


@dataclass(frozen=True)
class LazyGated(LazyLinear):
    """activation(x·Wᵀ + b), multiplied by another product of the same x."""

    gate: LazyLinear = field(kw_only=True)

    @torch.no_grad()
    def read(self) -> Float[Tensor, "*batch token d"]:
        """Return the whole tensor."""
        return super().read() * self.gate.read()

    def map_tensors(self, transform: Callable[[Tensor], Tensor]) -> LazyLinear:
        """Return the product with `transform` applied to x, and to that of the gate."""
        return replace(super().map_tensors(transform), gate=self.gate.map_tensors(transform))


LazyTensor = Tensor | LazyLinear


def read_lazy(lazy: LazyTensor) -> Tensor:
    """Return the tensor, worked out if it is lazy."""
    return lazy.read() if isinstance(lazy, LazyLinear) else lazy


def map_lazy(lazy: LazyTensor, transform: Callable[[Tensor], Tensor]) -> LazyTensor:
    """Apply `transform` to a tensor, or to the input of a lazy one."""
    return lazy.map_tensors(transform) if isinstance(lazy, LazyLinear) else transform(lazy)


def _version(weight: Tensor) -> int:
    return 0 if weight.is_inference() else weight._version
