"""What is changed in a run on purpose: masks by hand, with layers lifted, a ready-made mask laid over the rest, single cells
forbidden or opened. Edits in force live in a ContextVar of their own; attention asks for them where it is computed.

A change is told by position and not by size, so that one change fits the whole target at once (teacher forcing) and
every shorter prefix while decoding: a prefix meets the top-left part of the changed mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from models.layers.masks import LOOK_AHEAD, Mask, MaskLayer, hand_drawn

Cell = tuple[int, int]  # (query, key), both counted from 0

READY_MADE = ("none", "causal", "window", "previous", "block-diagonal")
_LEAST_K = {"window": 0, "block-diagonal": 1}  # those that have a k


def ready_made(name: str, k: int, n_query: int, n_key: int) -> Bool[Tensor, "query key"]:
    """A ready-made mask; True = may attend, query i, key j.

    none: all. causal: j ≤ i. window: |i − j| ≤ k. previous: j = i − 1. block-diagonal: ⌊i/k⌋ = ⌊j/k⌋."""
    if name not in READY_MADE:
        raise ValueError(f"a ready-made mask is one of {', '.join(READY_MADE)}, not {name!r}")
    if k < _LEAST_K.get(name, k):
        raise ValueError(f"k of a {name} mask must be at least {_LEAST_K[name]}, not {k}")
    i, j = torch.arange(n_query)[:, None], torch.arange(n_key)[None]
    if name == "causal":
        return j <= i
    if name == "window":
        return (i - j).abs() <= k
    if name == "previous":
        return j == i - 1
    if name == "block-diagonal":
        return i // k == j // k
    return torch.ones(n_query, n_key, dtype=torch.bool)


@dataclass(frozen=True)
class MaskChange:
    """What is changed about the mask of one kind of attention; MaskChange() changes nothing.

    Layers named in `lifted` go. The ready-made mask becomes a layer over the rest. `opened` cells are then allowed
    whatever a layer says, and `forbidden` ones become a layer drawn by hand. Cells beyond the mask's size do nothing.
    """

    lifted: tuple[str, ...] = ()
    ready: str = "none"  # of READY_MADE
    k: int = 2  # of window and block-diagonal
    forbidden: tuple[Cell, ...] = ()
    opened: tuple[Cell, ...] = ()

    @property
    def ready_name(self) -> str:
        """The ready-made mask as the name of its layer; empty for none."""
        return {
            "causal": LOOK_AHEAD,
            "window": f"window of {self.k}",
            "previous": "only the previous",
            "block-diagonal": f"blocks of {self.k}",
        }.get(self.ready, "")

    @property
    def is_none(self) -> bool:
        return self.ready == "none" and not (self.lifted or self.forbidden or self.opened)

    @property
    def opens_ahead(self) -> bool:
        """May lifting or opening let a target position see a later one?"""
        causal = self.ready in ("causal", "previous")
        return (LOOK_AHEAD in self.lifted and not causal) or any(
            key > query for query, key in self.opened
        )

    def apply(
        self, mask: Mask, n_query: int, n_key: int, device: torch.device | None = None
    ) -> Mask:
        """The changed mask for n_query positions from `mask.start` on and the keys 0 … n_key−1; the very mask if nothing
        changes."""
        if self.is_none:
            return mask
        rows, end = slice(mask.start, mask.start + n_query), mask.start + n_query
        layers = [layer for layer in mask.layers if layer.name not in self.lifted]
        if self.ready != "none":
            allowed = ready_made(self.ready, self.k, end, n_key)[rows].to(device)
            layers.append(MaskLayer(self.ready_name, allowed[None, None]))
        if self.opened:
            opened = _marked(self.opened, end, n_key)[rows].to(device)
            layers = [MaskLayer(layer.name, layer.allowed | opened) for layer in layers]
        if self.forbidden:
            layers.append(hand_drawn(~_marked(self.forbidden, end, n_key)[rows].to(device)))
        return Mask(layers, mask.start)


@dataclass(frozen=True)
class Edit:
    """A change to the mask of one kind of attention (SiteKind.name), in all of its sites or in some layers and heads."""

    kind: str
    change: MaskChange
    layers: tuple[int, ...] | None = None  # from 0; None: all
    heads: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Edits:
    """What is changed in one run. Changes of one kind meet in order, so that a later one has the last word.

    They hold in every pair of a batch."""

    edits: tuple[Edit, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "edits", tuple(edit for edit in self.edits if not edit.change.is_none)
        )

    @classmethod
    def of_kinds(cls, **changes: MaskChange) -> Edits:
        """One change for all sites of each kind, by its name."""
        return cls(tuple(Edit(kind, change) for kind, change in changes.items()))

    def __bool__(self) -> bool:
        return bool(self.edits)

    def of(self, kind: str) -> MaskChange:
        """The change of all sites of a kind."""
        return next(
            (
                e.change
                for e in self.edits
                if e.kind == kind and e.layers is None and e.heads is None
            ),
            MaskChange(),
        )

    def opens_ahead(self, kind: str) -> bool:
        """May a position see a later one somewhere?"""
        return any(edit.change.opens_ahead for edit in self.edits if edit.kind == kind)

    def of_layer(self, kind: str, layer: int) -> tuple[Edit, ...]:
        """What is changed in this layer's attention of a kind."""
        return tuple(
            e for e in self.edits if e.kind == kind and (e.layers is None or layer in e.layers)
        )


class _Active:
    """Edits under way, and the masks they have made so far: layers share theirs."""

    def __init__(self, edits: Edits) -> None:
        self.edits = edits
        self.changed_masks: dict[tuple[int, tuple[Edit, ...]], tuple[Mask, Mask]] = {}


_active: ContextVar[_Active | None] = ContextVar("edits", default=None)


@contextmanager
def editing(edits: Edits) -> Iterator[None]:
    """Change the forward passes made inside the block, in this thread of work only."""
    token = _active.set(_Active(edits) if edits else None)
    try:
        yield
    finally:
        _active.reset(token)


def edited(
    mask: Mask, kind: str, path: str, n_heads: int, n_query: int, n_key: int, device: torch.device
) -> Mask:
    """The mask of the attention at `path` under the edits in force here; the very mask if nothing changes it.

    Its queries are the positions from `mask.start` on."""
    if (active := _active.get()) is None:
        return mask
    layer = next((int(part) for part in path.split(".") if part.isdigit()), 0)
    if not (edits := active.edits.of_layer(kind, layer)):
        return mask
    if (id(mask), edits) not in active.changed_masks:
        changed = mask
        for edit in edits:
            whole = edit.change.apply(changed, n_query, n_key, device)
            changed = (
                whole if edit.heads is None else _in_heads(changed, whole, edit.heads, n_heads)
            )
        active.changed_masks[id(mask), edits] = (
            mask,
            changed,
        )  # the mask itself too, so that no other gets its id
    return active.changed_masks[id(mask), edits][1]


def _in_heads(before: Mask, after: Mask, heads: Sequence[int], n_heads: int) -> Mask:
    """Each layer as it is after a change in these heads, and as it was before in the others."""
    chosen = torch.tensor([head in heads for head in range(n_heads)])[None, :, None, None]
    old, new = ({layer.name: layer.allowed for layer in mask.layers} for mask in (before, after))
    everything = torch.ones(1, 1, 1, 1, dtype=torch.bool)
    layers = []
    for name in {**old, **new}:
        a, b = (side.get(name, everything) for side in (old, new))
        device = (old | new)[name].device
        layers.append(MaskLayer(name, torch.where(chosen.to(device), b.to(device), a.to(device))))
    return Mask(layers, before.start)


def _marked(cells: Sequence[Cell], n_query: int, n_key: int) -> Bool[Tensor, "query key"]:
    marked = torch.zeros(n_query, n_key, dtype=torch.bool)
    for query, key in cells:
        if query < n_query and key < n_key:
            marked[query, key] = True
    return marked
