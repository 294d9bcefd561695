"""What a recording keeps of an intermediate: its tensor, or the cause from which it is worked out again when read.

What a feed-forward layer holds inside is four times as wide as its input, and a long input's q, k and v are one product
away from a residual stream that is kept anyway. Keeping only the cause costs neither memory nor time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Product:
    """activation(x·Wᵀ + b), multiplied anew at each reading; x may be such a product itself.

    Raises RuntimeError if the weights have been changed since, because it would no longer be the run's own number."""

    x: Tensor | Product  # (batch, token, feature)
    weight: Tensor
    bias: Tensor | None
    n_heads: int | None = None  # split into (batch, head, token, d_head); None: as it is
    activation: Callable[[Tensor], Tensor] | None = None
    version: int = field(init=False)  # how often the weights had been changed

    def __post_init__(self) -> None:
        object.__setattr__(self, "version", _version(self.weight))

    @classmethod
    def of(
        cls,
        linear: nn.Linear,
        x: Tensor | Product,
        activation: Callable[[Tensor], Tensor] | None = None,
    ) -> Product:
        """activation(linear(x)), without gradients."""
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
    def read(self) -> Tensor:
        """The whole of it."""
        self._check()
        x = self.x.read() if isinstance(self.x, Product) else self.x
        y = F.linear(x, self.weight, self.bias)
        y = y if self.activation is None else self.activation(y)
        return y if self.n_heads is None else y.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    @torch.no_grad()
    def read_head(self, batch: int, head: int) -> Tensor:
        """One head of one batch row, (token, d_head), without multiplying the others."""
        self._check()
        d_head = self.shape[3]
        own = slice(head * d_head, (head + 1) * d_head)
        return F.linear(
            self.x[batch], self.weight[own], None if self.bias is None else self.bias[own]
        )

    def map_tensors(self, transform: Callable[[Tensor], Tensor]) -> Product:
        """Its cause after `transform`, its weights on the same device in the same type."""
        self._check()
        x = self.x.map_tensors(transform) if isinstance(self.x, Product) else transform(self.x)
        if x is self.x:
            return self
        like = x.weight if isinstance(x, Product) else x
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
class Gated(Product):
    """activation(x·Wᵀ + b) times another product of the same x."""

    other: Product | None = None

    @torch.no_grad()
    def read(self) -> Tensor:
        """The whole of it."""
        return super().read() * self.other.read()

    def map_tensors(self, transform: Callable[[Tensor], Tensor]) -> Gated:
        """Its cause after `transform`, with both weights."""
        return replace(super().map_tensors(transform), other=self.other.map_tensors(transform))


def _version(weight: Tensor) -> int:
    return 0 if weight.is_inference() else weight._version


class Deferred:
    """A dataclass field that reads as a tensor, whether it was given a tensor or a Product; `_name` is what was given."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.attribute = f"_{name}"

    def __get__(self, instance: Any, owner: type | None = None) -> Tensor:
        if instance is None:
            raise AttributeError(self.attribute)  # for dataclass: this field has no default
        given = getattr(instance, self.attribute)
        return given.read() if isinstance(given, Product) else given

    def __set__(self, instance: Any, value: Tensor | Product) -> None:
        object.__setattr__(
            instance, self.attribute, value
        )  # a frozen dataclass sets its fields so, too
