"""Follow the axes of a tensor through views, transposes and products, so that none is guessed.

An axis of a tensor is a row of atoms, each with an identity of its own: a merged axis has several,
an axis of size 1 none. A later split of an axis splits its atom wherever it occurs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor


@dataclass(eq=False)
class Atom:
    """An axis, or a part of a merged one; `parts` are what a view has split it into."""

    size: int
    parts: tuple[Atom, ...] = field(default=())

    def resolved(self) -> tuple[Atom, ...]:
        """Return the atoms that this one has been split into so far."""
        return tuple(a for part in self.parts for a in part.resolved()) if self.parts else (self,)


AtomAxis = tuple[Atom, ...]
AxisOrder = tuple[AtomAxis, ...]


def fresh(shape: Sequence[int]) -> AxisOrder:
    """Return new axes, shared with no other tensor."""
    return tuple((Atom(size),) if size > 1 else () for size in shape)


def resolve_axis(axis: Sequence[Atom]) -> AtomAxis:
    """Return the current atoms of an axis."""
    return tuple(a for atom in axis for a in atom.resolved())


def size_of(axis: Sequence[Atom]) -> int:
    return math.prod(atom.size for atom in axis)


def result_layout(
    func: Callable[..., Any], args: Sequence[Any], result: Shaped[Tensor, ...], layout: AxisOrder
) -> Any:
    """Return the layout of a function's result, given that of its first argument; None if unknown.

    A function that keeps the shape and is not a view is assumed to act on each number alone;
    callers that rely on this must measure it.
    """
    if func in _TRANSPOSES:
        order = _order(func, args, len(layout))
        return None if order is None else tuple(layout[i] for i in order)
    if func in _VIEWS:
        same = result.numel() == math.prod(size_of(axis) for axis in layout)
        return _reshape(layout, tuple(result.shape)) if same else None
    return _broadcast(layout, tuple(result.shape))


def arrange_axes(
    t: Shaped[Tensor, ...], layout: AxisOrder, groups: Sequence[AtomAxis]
) -> Shaped[Tensor, ...] | None:
    """Return a tensor with one axis for each group of atoms; None if it has further atoms.

    A group of which it has no atoms, or only the first ones, gives a shorter axis.
    """
    axes = [resolve_axis(axis) for axis in layout]
    flat = [atom for axis in axes for atom in axis]
    order = [[atom for atom in group if atom in flat] for group in groups]
    if len(flat) != sum(map(len, order)):
        return None
    t = t.reshape([atom.size for atom in flat])
    t = t.permute([flat.index(atom) for group in order for atom in group])
    lacks = [
        present != list(group[: len(present)]) for present, group in zip(order, groups, strict=True)
    ]
    if any(lacks):
        sizes = [atom.size if atom in flat else 1 for group in groups for atom in group]
        t = t.reshape(sizes).expand([atom.size for group in groups for atom in group])
        order = [list(group) for group in groups]
    return t.reshape([size_of(group) for group in order])


def place_axes(
    t: Shaped[Tensor, ...], groups: Sequence[AtomAxis], layout: AxisOrder, shape: Sequence[int]
) -> Shaped[Tensor, ...]:
    """Return a tensor with an axis for each group in a layout of the same atoms."""
    flat = [atom for group in groups for atom in group]
    order = [flat.index(atom) for axis in layout for atom in resolve_axis(axis)]
    return t.reshape([atom.size for atom in flat]).permute(order).reshape(tuple(shape))


def _reshape(layout: AxisOrder, shape: tuple[int, ...]) -> AxisOrder | None:
    left = [atom for axis in layout for atom in resolve_axis(axis)]
    result: list[AtomAxis] = []
    for size in shape:
        axis: list[Atom] = []
        while size > 1:
            if not left:
                return None
            atom = left.pop(0)
            if atom.size > size:
                if atom.size % size:
                    return None
                atom.parts = Atom(size), Atom(atom.size // size)
                atom, rest = atom.parts
                left.insert(0, rest)
            if size % atom.size:
                return None
            axis.append(atom)
            size //= atom.size
        result.append(tuple(axis))
    return None if left else tuple(result)


def _broadcast(layout: AxisOrder, shape: tuple[int, ...]) -> AxisOrder | None:
    if len(shape) < len(layout):
        return None
    padded = ((),) * (len(shape) - len(layout)) + layout
    result = []
    for axis, size in zip(padded, shape, strict=True):
        if size_of(axis) != size and axis:
            return None
        result.append(axis if axis or size == 1 else (Atom(size),))
    return tuple(result)


_PROPERTIES: tuple[Any, Any] = (Tensor.T, Tensor.mT)
_T, _MT = (each.__get__ for each in _PROPERTIES)  # the functions that a mode sees
_TRANSPOSES = frozenset(
    {
        torch.transpose, Tensor.transpose, torch.swapaxes, Tensor.swapaxes, torch.swapdims, Tensor.swapdims,
        torch.permute, Tensor.permute, torch.t, Tensor.t, _T, _MT,
    }
)  # fmt: skip
_VIEWS = frozenset(
    {
        Tensor.view, Tensor.reshape, torch.reshape, torch.flatten, Tensor.flatten, torch.unflatten,
        Tensor.unflatten, torch.squeeze, Tensor.squeeze, torch.unsqueeze, Tensor.unsqueeze, Tensor.view_as,
        Tensor.reshape_as, Tensor.__getitem__,
    }
)  # fmt: skip


def _order(func: Callable[..., Any], args: Sequence[Any], n: int) -> list[int] | None:
    """Return the order of axes after a transposing function."""
    order = list(range(n))
    rest = args[1:]
    if func in (torch.permute, Tensor.permute):
        dims = rest[0] if rest and isinstance(rest[0], tuple | list) else rest
        return [d % n for d in dims] if len(dims) == n else None
    if len(rest) == 2 and all(isinstance(d, int) for d in rest):
        one, other = (d % n for d in rest)
    elif func in (torch.t, Tensor.t, _T, _MT) and n >= 2:
        if n > 2 and func is _T:
            return order[::-1]
        one, other = n - 2, n - 1
    else:
        return None
    order[one], order[other] = order[other], order[one]
    return order
