"""Edits of masks: layers removed, a preset laid over the rest, cells blocked or opened.

A change is defined by positions, not by sizes, so that one change fits the whole target at once
(teacher forcing) and every shorter prefix while decoding: a prefix meets the top-left part of the
changed mask.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import index

import torch
from jaxtyping import Bool
from torch import Tensor

from models.layers.masks import LOOK_AHEAD, Mask, MaskLayer, custom_layer
from models.trace.edits.base import AttentionPart, Edit, Where

Cell = tuple[int, int]  # (query, key), both counted from 0

READY_MADE = ("none", "causal", "window", "previous", "block-diagonal")
_MIN_K = {"window": 0, "block-diagonal": 1}


def ready_made(name: str, k: int, n_query: int, n_key: int) -> Bool[Tensor, "query key"]:
    """Return a preset mask; True = may attend. Query i, key j.

    none: all. causal: j ≤ i. window: |i − j| ≤ k. previous: j = i − 1. block-diagonal: ⌊i/k⌋ =
    ⌊j/k⌋.

    Raises:
        ValueError: an unknown name, or k is too small for it.
    """
    if name not in READY_MADE:
        raise ValueError(f"a preset mask is one of {', '.join(READY_MADE)}, got {name!r}")
    if k < _MIN_K.get(name, k):
        raise ValueError(f"k of a {name} mask must be at least {_MIN_K[name]}, got {k}")
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

    `removed_layers` are removed by name. The preset mask `preset` becomes a layer over the rest.
    Every layer then allows the cells in `allow`; those in `block` become a custom layer. Cells
    beyond the mask's size have no effect.
    """

    removed_layers: tuple[str, ...] = ()
    preset: str = "none"  # of READY_MADE
    k: int = 2  # of window and block-diagonal
    block: tuple[Cell, ...] = ()
    allow: tuple[Cell, ...] = ()

    def __post_init__(self, head: int | None) -> None:
        super().__post_init__(head)
        if isinstance(self.removed_layers, str):
            raise ValueError(f"removed_layers must be names in a list, got {self.removed_layers!r}")
        object.__setattr__(self, "removed_layers", tuple(self.removed_layers))
        for name in ("block", "allow"):
            object.__setattr__(self, name, _cells(name, getattr(self, name)))

    @property
    def preset_name(self) -> str:
        """Layer name of the preset; empty for none."""
        return {
            "causal": LOOK_AHEAD,
            "window": f"window of {self.k}",
            "previous": "only the previous",
            "block-diagonal": f"blocks of {self.k}",
        }.get(self.preset, "")

    @property
    def is_none(self) -> bool:
        return self.preset == "none" and not (self.removed_layers or self.block or self.allow)

    @property
    def opens_ahead(self) -> bool:
        """True if removing or opening may let a target position see a later one."""
        causal = self.preset in ("causal", "previous")
        return (LOOK_AHEAD in self.removed_layers and not causal) or any(
            key > query for query, key in self.allow
        )

    @property
    def names_positions(self) -> bool:
        is_painted = bool(self.block or self.allow)
        return super().names_positions or is_painted or self.preset != "none"

    def mask(self, mask: Mask, part: AttentionPart) -> Mask:
        whole = self.apply(mask, len(part.queries), part.n_key, part.device)
        inside = replace(self.where, site=None, kind=None, layers=None)
        return whole if inside == Where() else _in_part(mask, whole, part.chosen(self.where))

    def effects(self) -> list[str]:
        cells = {"forbidden": self.block, "opened": self.allow}
        return [
            *(f"{name} removed" for name in self.removed_layers),
            *([self.preset_name] if self.preset_name else []),
            *(
                f"{what} (query, key) {' '.join(f'({q}, {k})' for q, k in listed)}"
                for what, listed in cells.items()
                if listed
            ),
        ]

    def apply(
        self, mask: Mask, n_query: int, n_key: int, device: torch.device | None = None
    ) -> Mask:
        """Return the changed mask for n_query positions from `mask.start` on and keys 0 … n_key−1.

        It is the mask itself if nothing changes.
        """
        if self.is_none:
            return mask
        rows, end = slice(mask.start, mask.start + n_query), mask.start + n_query
        layers = [layer for layer in mask.layers if layer.name not in self.removed_layers]
        if self.preset != "none":
            allowed = ready_made(self.preset, self.k, end, n_key)[rows].to(device)
            layers.append(MaskLayer(self.preset_name, allowed[None, None]))
        if self.allow:
            opened = _mark_cells(self.allow, end, n_key)[rows].to(device)
            layers = [MaskLayer(layer.name, layer.allowed | opened) for layer in layers]
        if self.block:
            layers.append(custom_layer(~_mark_cells(self.block, end, n_key)[rows].to(device)))
        return Mask(layers, mask.start)


class _Cells(tuple):
    """Cells that have been checked, so that a copy of their edit costs nothing."""


def _cells(name: str, cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """Return a user's cells as a tuple of pairs."""
    if isinstance(cells, _Cells):
        return cells
    try:
        pairs = _Cells((index(query), index(key)) for query, key in cells)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be (query, key) pairs in a list, got {cells!r:.60}"
        ) from None
    if wrong := [pair for pair in pairs if min(pair) < 0]:
        raise ValueError(f"cells are counted from 0, got {wrong[0]}")
    return pairs


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
    """Return what all layers of one name allow together: several edits may add custom layers."""
    allowed: dict[str, Tensor] = {}
    for layer in mask.layers:
        before = allowed.get(layer.name)
        allowed[layer.name] = layer.allowed if before is None else before & layer.allowed
    return allowed


def _mark_cells(cells: Sequence[Cell], n_query: int, n_key: int) -> Bool[Tensor, "query key"]:
    marked = torch.zeros(n_query, n_key, dtype=torch.bool)
    for query, key in cells:
        if query < n_query and key < n_key:
            marked[query, key] = True
    return marked
