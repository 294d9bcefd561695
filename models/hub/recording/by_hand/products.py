"""Products of two tensors, as attention uses them, in one form: labels of their axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from torch import Tensor

_MATMULS = frozenset(
    {torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm, torch.mm, Tensor.mm}
)
_ADDED = frozenset({torch.baddbmm, Tensor.baddbmm})
PRODUCTS = _MATMULS | _ADDED | {torch.einsum, Tensor.__rmatmul__}

Labels = tuple[int, ...]


@dataclass(frozen=True)
class Product:
    """A product of `a` and `b`, each axis of which has a label, summed over labels not in `out`.

    `added` is what torch.baddbmm adds: a tensor, its factor, and the factor of the product.
    """

    a: Tensor
    b: Tensor
    of_a: Labels
    of_b: Labels
    out: Labels
    added: tuple[Tensor, float, float] | None = None

    @property
    def summed(self) -> Labels:
        """Labels that the product is summed over."""
        return tuple(label for label in self.of_a if label in self.of_b and label not in self.out)

    def computed(self) -> Tensor:
        """Return the product alone, computed again."""
        numbers = {label: i for i, label in enumerate(dict.fromkeys((*self.of_a, *self.of_b)))}
        of_a, of_b, out = (
            [numbers[label] for label in labels] for labels in (self.of_a, self.of_b, self.out)
        )
        return torch.einsum(self.a, of_a, self.b, of_b, out)


def product_of(
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Product | None:
    """Return a call as a product of two tensors with axes of their own; None if it is not one."""
    args = (*args, *(kwargs[name] for name in _NAMES if name in kwargs))
    if func is torch.einsum:
        return _einsum(args)
    if func in _ADDED and len(args) >= 3:
        added = args[0], float(kwargs.get("beta", 1)), float(kwargs.get("alpha", 1))
        return Product(args[1], args[2], (0, 1, 2), (0, 2, 3), (0, 1, 3), added)
    tensors = args[:2]
    if len(tensors) < 2 or not all(isinstance(t, Tensor) and t.dim() > 1 for t in tensors):
        return None
    a, b = tensors[::-1] if func is Tensor.__rmatmul__ else tensors
    lead = range(max(a.dim(), b.dim()) - 2)
    row, inner, column = 100, 101, 102
    of_a = (*lead[len(lead) - (a.dim() - 2) :], row, inner)
    of_b = (*lead[len(lead) - (b.dim() - 2) :], inner, column)
    return Product(a, b, of_a, of_b, (*lead, row, column))


_NAMES = ("input", "other", "mat2", "tensor2", "batch1", "batch2")


def _einsum(args: Sequence[Any]) -> Product | None:
    if len(args) < 2 or not isinstance(args[0], str):
        return None
    operands = args[1] if isinstance(args[1], tuple | list) else args[1:]
    left, arrow, right = args[0].replace(" ", "").partition("->")
    names = left.split(",")
    if not arrow or len(operands) != 2 or len(names) != 2:
        return None
    numbers: dict[str, int] = {}
    fresh, spread = count(), max(_spread(n, t) for n, t in zip(names, operands, strict=True))

    def labels(name: str, n_spread: int) -> Labels:
        if name.count("...") > 1:
            return ()
        before, dots, after = name.partition("...")
        dots = [f"...{i}" for i in range(spread - n_spread, spread)] if dots else []
        return tuple(numbers.setdefault(letter, next(fresh)) for letter in (*before, *dots, *after))

    a, b = operands
    of_a, of_b = (labels(n, _spread(n, t)) for n, t in zip(names, operands, strict=True))
    out = labels(right, spread)
    alone = (set(of_a) ^ set(of_b)) - set(out)
    twice = any(len(set(each)) < len(each) for each in (of_a, of_b, out))
    if alone or twice or len(of_a) != a.dim() or len(of_b) != b.dim():
        return None
    return Product(a, b, of_a, of_b, out)


def _spread(name: str, t: Tensor) -> int:
    """Return how many axes "..." stands for."""
    return t.dim() - len(name.replace("...", "")) if "..." in name else 0
