"""Edits of single cells: weights set by hand, and the value of one token set to 0."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from models.trace.edits.base import FARTHEST, AttentionPart, Edit


@dataclass(frozen=True)
class SetWeights(Edit):
    """Set weights of rows by hand; the rest of each row is rescaled so that it still sums to 1.

    `cells` holds (key, weight) pairs. A masked key keeps the weight 0, and a key that does not
    exist yet is left out. A row with nothing else to rescale is rescaled as a whole.
    """

    cells: tuple[tuple[int, float], ...] = ()

    def __post_init__(self, head: int | None) -> None:
        super().__post_init__(head)
        object.__setattr__(self, "cells", tuple((int(k), float(w)) for k, w in self.cells))
        keys = [key for key, _ in self.cells]
        if wrong := [key for key in keys if key < 0]:
            raise ValueError(f"keys are counted from 0, got {wrong[0]}")
        if len(set(keys)) < len(keys):
            raise ValueError(f"each key may be set once, got {', '.join(map(str, keys))}")
        if wrong := [weight for _, weight in self.cells if not 0 <= weight <= 1]:
            raise ValueError(f"a weight is a number from 0 to 1, got {wrong[0]}")
        if (total := sum(weight for _, weight in self.cells)) > 1 + 1e-6:
            raise ValueError(f"weights of a row sum to at most 1, got {total:g}")

    @property
    def is_none(self) -> bool:
        return not self.cells

    @property
    def names_positions(self) -> bool:
        return True

    def weights(
        self, weights: Float[Tensor, "row head query key"], part: AttentionPart
    ) -> Float[Tensor, "row head query key"]:
        """Set the cells and rescale the others."""
        cells = [(key, weight) for key, weight in self.cells if key < part.n_key]
        imposed, is_set = weights.new_zeros(part.n_key), torch.zeros(part.n_key, dtype=torch.bool)
        for key, weight in cells:
            imposed[key], is_set[key] = weight, True
        is_set = is_set.to(part.device)
        if part.allowed is not None:
            imposed = imposed * part.allowed
        rest = weights.masked_fill(is_set, 0.0)
        room = 1 - imposed.sum(-1, keepdim=True)
        total = rest.sum(-1, keepdim=True)
        scale = torch.where(total > 0, room.clamp(min=0) / total, torch.zeros_like(total))
        new = torch.where(is_set, imposed, rest * scale)
        # a row with nothing left stays as it was: its only open keys were set to 0
        new = torch.where(new.sum(-1, keepdim=True) > 0, new, weights)
        return torch.where(part.chosen(self.where), new, weights)

    def effects(self) -> list[str]:
        cells = ", ".join(f"{weight:g} on token {key}" for key, weight in self.cells)
        return [f"weights set to {cells}, the rest rescaled"]


@dataclass(frozen=True)
class ZeroValue(Edit):
    """Set the value vector of one token to 0: its weight stays, but adds nothing.

    This equals column `token` set to 0 without rescaling the rows (value zeroing, Mohebbi et al.
    2023).
    """

    token: int = 0  # position of the key

    def __post_init__(self, head: int | None) -> None:
        super().__post_init__(head)
        if not 0 <= self.token <= FARTHEST:
            raise ValueError(f"tokens are counted from 0 to {FARTHEST}, got {self.token}")

    @property
    def names_positions(self) -> bool:
        return True

    def value_weights(
        self, weights: Float[Tensor, "row head query key"], part: AttentionPart
    ) -> Float[Tensor, "row head query key"]:
        """Leave the token's value out of the sum."""
        is_token = torch.arange(part.n_key, device=part.device) == self.token
        return weights.masked_fill(part.chosen(self.where) & is_token, 0.0)

    def effects(self) -> list[str]:
        return [f"value of token {self.token} set to 0"]
