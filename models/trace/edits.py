"""Masks changed by hand: layers lifted, a ready-made mask laid over the rest, single cells forbidden or opened.

A change is told by position and not by size, so that one change fits the whole target at once (teacher forcing) and
every shorter prefix while decoding: a prefix meets the top-left part of the changed mask.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool
from torch import Tensor

from models.layers.masks import DRAWN, LOOK_AHEAD, STREAMS, Mask, MaskLayer, Masks

Cell = tuple[int, int]    # (query, key), both counted from 0

READY_MADE = ("none", "causal", "window", "previous", "block-diagonal")
_LEAST_K = {"window": 0, "block-diagonal": 1}    # those that have a k


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
    ready: str = "none"                    # of READY_MADE
    k: int = 2                             # of window and block-diagonal
    forbidden: tuple[Cell, ...] = ()
    opened: tuple[Cell, ...] = ()

    @property
    def ready_name(self) -> str:
        """The ready-made mask as the name of its layer; empty for none."""
        return {
            "causal": LOOK_AHEAD, "window": f"window of {self.k}", "previous": "only the previous",
            "block-diagonal": f"blocks of {self.k}",
        }.get(self.ready, "")

    @property
    def is_none(self) -> bool:
        return self.ready == "none" and not (self.lifted or self.forbidden or self.opened)

    @property
    def opens_ahead(self) -> bool:
        """May lifting or opening let a target position see a later one?"""
        causal = self.ready in ("causal", "previous")
        return (LOOK_AHEAD in self.lifted and not causal) or any(key > query for query, key in self.opened)

    def apply(self, mask: Mask, n_query: int, n_key: int, device: torch.device | None = None) -> Mask:
        """The changed mask for the positions 0 … n_query−1 and 0 … n_key−1; the very mask if nothing changes."""
        if self.is_none:
            return mask
        layers = [layer for layer in mask.layers if layer.name not in self.lifted]
        if self.ready != "none":
            allowed = ready_made(self.ready, self.k, n_query, n_key).to(device)
            layers.append(MaskLayer(self.ready_name, allowed[None, None]))
        if self.opened:
            opened = _marked(self.opened, n_query, n_key).to(device)
            layers = [MaskLayer(layer.name, layer.allowed | opened) for layer in layers]
        if self.forbidden:
            layers.append(MaskLayer(DRAWN, ~_marked(self.forbidden, n_query, n_key).to(device)[None, None]))
        return Mask(layers)


@dataclass(frozen=True)
class MaskChanges:
    """The changes of one run by kind of attention. They hold in every layer, every head and every pair of a batch."""

    encoder_self: MaskChange = MaskChange()
    decoder_self: MaskChange = MaskChange()
    cross: MaskChange = MaskChange()

    def of(self, kind: str) -> MaskChange:
        return getattr(self, kind)

    def apply(self, masks: Masks, n: int, m: int, device: torch.device) -> Masks:
        """The changed masks of a source of n tokens and a target of m."""
        size = {"source": n, "target": m}
        shapes = {kind: (size[queries], size[keys]) for kind, (queries, keys) in STREAMS.items()}
        return {kind: self.of(kind).apply(mask, *shapes[kind], device) for kind, mask in masks.items()}

    def replaced(self, kind: str, change: MaskChange) -> "MaskChanges":
        return replace(self, **{kind: change})


def _marked(cells: Sequence[Cell], n_query: int, n_key: int) -> Bool[Tensor, "query key"]:
    marked = torch.zeros(n_query, n_key, dtype=torch.bool)
    for query, key in cells:
        if query < n_query and key < n_key:
            marked[query, key] = True
    return marked
