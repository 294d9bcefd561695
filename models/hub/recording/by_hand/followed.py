"""Scores, softmaxes and the functions applied to them, which can be repeated on other numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Shaped
from torch import Tensor

from models.hub.recording.by_hand.axes import Atom, AtomAxis, AxisOrder, resolve_axis
from models.hub.recording.by_hand.products import Product
from models.hub.recording.context import rebuild

SOFTMAX = frozenset({F.softmax, torch.softmax, Tensor.softmax, torch.special.softmax})
EXP = frozenset({torch.exp, Tensor.exp, Tensor.exp_})
LOG_SOFTMAX = frozenset(
    {F.log_softmax, torch.log_softmax, Tensor.log_softmax, torch.special.log_softmax}
)


@dataclass(eq=False)
class ScoreProduct:
    """A product of possible queries and keys, with the axes of all three tensors."""

    product: Product
    of_a: AxisOrder
    of_b: AxisOrder
    layout: AxisOrder
    value: Tensor
    is_overwritten: bool = False  # by a function that changed it in place

    def raw(self) -> Tensor:
        """Return the product as it was."""
        return self.product.computed() if self.is_overwritten else self.value


@dataclass(eq=False)
class Softmax:
    """A softmax over the axis `dim`, of followed scores if `scores` is given."""

    scores: FollowedStep | None
    dim: int
    func: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    value: Tensor
    layout: AxisOrder
    is_overwritten: bool = False  # by a function that changed it in place
    path: str = ""  # of the module that takes it, if it is one of queries and keys

    def raw(self) -> Tensor:
        """Return the softmax as it was."""
        return self.of(self.args[0]) if self.is_overwritten else self.value

    def of(self, z: Shaped[Tensor, ...]) -> Shaped[Tensor, ...]:
        """Return the softmax of other numbers, computed as this one was."""
        return self.func(
            z, *self.args[1:], **{k: v for k, v in self.kwargs.items() if k != "input"}
        )


Root = ScoreProduct | Softmax


@dataclass(eq=False)
class FollowedStep:
    """A function's result from scores or weights; followed arguments are steps, too."""

    root: Root
    func: Callable[..., Any] | None  # None: the root's own value
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    value: Tensor
    layout: AxisOrder

    def again(self, root_value: Shaped[Tensor, ...], done: dict[int, Any] | None = None) -> Tensor:
        """Return the result of this step for another value of its root."""
        done = {} if done is None else done
        if self.func is None:
            return root_value
        if id(self) not in done:
            args = [self._again(arg, root_value, done) for arg in self.args]
            kwargs = {k: self._again(arg, root_value, done) for k, arg in self.kwargs.items()}
            if changes_in_place(self.func, self.kwargs):
                args[0] = args[0].clone()
            result = self.func(*args, **kwargs)
            done[id(self)] = args[0] if self.func is Tensor.__setitem__ else result
        return done[id(self)]

    def before(self, funcs: Collection[Callable[..., Any]]) -> FollowedStep | None:
        """Return the argument of the last of these functions on the way here; None without one."""
        step: Any = self
        while isinstance(step, FollowedStep) and step.func is not None:
            inner = next((arg for arg in step.args if isinstance(arg, FollowedStep)), None)
            if step.func in funcs:
                return inner
            step = inner
        return None

    def _again(self, arg: Any, root_value: Shaped[Tensor, ...], done: dict[int, Any]) -> Any:
        if isinstance(arg, FollowedStep):
            return arg.again(root_value, done)
        if isinstance(arg, tuple | list):
            return rebuild(arg, (self._again(part, root_value, done) for part in arg))
        if isinstance(arg, Tensor) and arg.is_inference() and not torch.is_inference_mode_enabled():
            return arg.clone()  # a copy that allows a derivative
        return arg


def softmax_of(step: FollowedStep, dim: int) -> FollowedStep | None:
    """Return weights of exp and a division as a softmax over an axis; None if they are not one."""
    z = step.before(EXP)
    if z is not None and z.func in LOG_SOFTMAX:  # it subtracts a constant that softmax ignores
        z = step.before(LOG_SOFTMAX)
    if z is None or not isinstance(step.root, ScoreProduct) or z.value.shape != step.value.shape:
        return None
    if step.root.is_overwritten:
        z = replace(z, value=z.again(step.root.raw()))
    expected = torch.softmax(z.value, dim)
    if not torch.allclose(expected, step.value, rtol=1e-5, atol=1e-7):
        return None
    root = Softmax(z, dim, torch.softmax, (z.value, dim), {}, step.value, step.layout)
    return replace(step, root=root, func=None, args=(), kwargs={})


def axes_of(product: Product, known: Mapping[int, AtomAxis] | None = None) -> dict[int, AtomAxis]:
    """Return the axis of each label of a product; those of `known` labels are given."""
    axes: dict[int, AtomAxis] = dict(known or {})
    for t, labels in operands(product):
        for label, size in zip(labels, t.shape, strict=True):
            if size > 1 and not axes.get(label):
                axes[label] = (Atom(size),)
            axes.setdefault(label, ())
    return axes


def layout_of(
    t: Shaped[Tensor, ...], labels: Sequence[int], axes: Mapping[int, AtomAxis]
) -> AxisOrder:
    """Return the axes of an operand, without those that it is broadcast along."""
    return tuple(
        resolve_axis(axes[label]) if size > 1 else ()
        for label, size in zip(labels, t.shape, strict=True)
    )


def operands(product: Product) -> tuple[tuple[Tensor, tuple[int, ...]], ...]:
    """Return the two tensors of a product, each with the labels of its axes."""
    return (product.a, product.of_a), (product.b, product.of_b)


def changes_in_place(func: Callable[..., Any], kwargs: Mapping[str, Any]) -> bool:
    """Return True if a torch function changes its first argument."""
    name = getattr(func, "__name__", "")
    is_in_place = name.endswith("_") and not name.endswith("__")
    is_assigned = name.startswith("__i") and name not in ("__invert__", "__index__", "__int__")
    return is_in_place or is_assigned or name == "__setitem__" or bool(kwargs.get("inplace"))
