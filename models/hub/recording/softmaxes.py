"""Find attention that a model computes by itself: a softmax that weighs values in a product.

Every such softmax of a pass is either recorded (a library returned its result) or named as not
recorded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

SOFTMAX = frozenset({F.softmax, torch.softmax, Tensor.softmax})
_PRODUCTS = frozenset(
    {
        torch.matmul, Tensor.matmul, Tensor.__matmul__, Tensor.__rmatmul__, torch.bmm, Tensor.bmm,
        torch.mm, Tensor.mm, torch.einsum, torch.baddbmm, Tensor.baddbmm,
    }
)  # fmt: skip
_PENDING = 8  # tensors; between a softmax and the product with the values lie few steps


@dataclass(frozen=True)
class Softmax:
    """The result of a softmax, by its shape and the address of each copy that was made of it."""

    shape: tuple[int, ...]
    addresses: set[int]


@dataclass(frozen=True)
class WeightedSum:
    """A product of a softmax with values, in the module at `path`."""

    path: str
    softmax: Softmax


class WeightedSums:
    """The weighted sums of a pass that nothing has recorded yet."""

    def __init__(self) -> None:
        self._pending: deque[tuple[Tensor, Softmax]] = deque(maxlen=_PENDING)  # kept alive
        self._sums: list[WeightedSum] = []

    def note(self, func: Callable[..., Any], args: tuple[Any, ...], result: Any, path: str) -> None:
        """Follow one torch function of the module at `path`."""
        if func in SOFTMAX:
            self._pending.append((result, Softmax(tuple(result.shape), {_address(result)})))
        elif self._pending:
            addresses = {_address(t) for t in _tensors(args)}
            for value, softmax in list(self._pending):
                if _address(value) in addresses:
                    self._follow(softmax, func, result, path)

    def _follow(self, softmax: Softmax, func: Callable[..., Any], result: Any, path: str) -> None:
        """Take the result of a function of this softmax for a weighted sum, a copy, or neither."""
        if func in _PRODUCTS:
            self._sums.append(WeightedSum(path, softmax))
            kept = [pair for pair in self._pending if pair[1] is not softmax]
            self._pending = deque(kept, maxlen=_PENDING)
        elif _is_copy(result, softmax) and _address(result) not in softmax.addresses:
            softmax.addresses.add(_address(result))
            self._pending.append((result, softmax))

    def account_for(self, weights: Float[Tensor, ...], path: str) -> None:
        """Forget the sum with these weights, which a library returned of the module at `path`.

        They are known by their memory or, where they were copied, by how many there are.
        """
        address = _address(weights)
        same = [each for each in reversed(self._sums) if address in each.softmax.addresses]
        alike = [
            each
            for each in self._sums
            if torch.Size(each.softmax.shape).numel() == weights.numel()
            and f"{each.path}.".startswith(f"{path}." if path else "")
        ]
        for each in (*same, *alike)[:1]:
            self._sums.remove(each)

    def by_module(self) -> dict[str, list[tuple[int, ...]]]:
        """Return module path → the distinct shapes of the weights left over there."""
        shapes: dict[str, list[tuple[int, ...]]] = {}
        for each in self._sums:
            distinct = shapes.setdefault(each.path, [])
            if each.softmax.shape not in distinct:
                distinct.append(each.softmax.shape)
        return shapes


def _is_copy(result: Any, softmax: Softmax) -> bool:
    return isinstance(result, Tensor) and result.numel() == torch.Size(softmax.shape).numel()


def _address(t: Tensor) -> int:
    return t.untyped_storage().data_ptr()


def _tensors(args: tuple[Any, ...]) -> Iterator[Tensor]:
    """Yield the tensors among arguments, those in a list of operands included."""
    for arg in args:
        if isinstance(arg, Tensor):
            yield arg
        elif isinstance(arg, list | tuple):
            yield from (part for part in arg if isinstance(part, Tensor))
