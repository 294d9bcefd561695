"""Masks changed by hand: layers lifted, a ready-made mask laid over the rest, single cells forbidden or opened.

A change is told by position and not by size, so that one change fits the whole target at once (teacher forcing) and
every shorter prefix while decoding: a prefix meets the top-left part of the changed mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool
from torch import Tensor

from models.layers.masks import LOOK_AHEAD, Mask, MaskLayer, hand_drawn
from models.trace.edits.base import AttentionPart, Edit, Where

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
class MaskChange(Edit):
    """A change to masks; MaskChange() changes nothing.

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

    def mask(self, mask: Mask, part: AttentionPart) -> Mask:
        whole = self.apply(mask, len(part.queries), part.n_key, part.device)
        inside = replace(self.where, site=None, kind=None, layers=None)
        return whole if inside == Where() else _in_part(mask, whole, part.chosen(self.where))

    def effects(self) -> list[str]:
        cells = {"forbidden": self.forbidden, "opened": self.opened}
        return [
            *(f"{name} lifted" for name in self.lifted),
            *([self.ready_name] if self.ready_name else []),
            *(
                f"{what} (query, key) {' '.join(f'({q}, {k})' for q, k in found)}"
                for what, found in cells.items()
                if found
            ),
        ]

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


def _in_part(before: Mask, after: Mask, chosen: Bool[Tensor, "#batch #head #query 1"]) -> Mask:
    """Take each layer from `after` where chosen, and from `before` elsewhere."""
    old, new = _by_name(before), _by_name(after)
    everything = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=chosen.device)
    return Mask(
        (
            MaskLayer(
                name, torch.where(chosen, new.get(name, everything), old.get(name, everything))
            )
            for name in {**old, **new}
        ),
        before.start,
    )


def _by_name(mask: Mask) -> dict[str, Tensor]:
    """Name → what the layers of this name allow together: several edits may draw by hand."""
    allowed: dict[str, Tensor] = {}
    for layer in mask.layers:
        before = allowed.get(layer.name)
        allowed[layer.name] = layer.allowed if before is None else before & layer.allowed
    return allowed


def _marked(cells: Sequence[Cell], n_query: int, n_key: int) -> Bool[Tensor, "query key"]:
    marked = torch.zeros(n_query, n_key, dtype=torch.bool)
    for query, key in cells:
        if query < n_query and key < n_key:
            marked[query, key] = True
    return marked
