"""Edits that only tests of the edit protocol need."""

from dataclasses import dataclass

import torch
from torch import Tensor

from models.trace.edits import ActivationPart, AttentionPart, Edit


@dataclass(frozen=True)
class Copied(Edit):
    """Copy every intermediate and change nothing."""

    def activation(self, value: Tensor, part: ActivationPart) -> Tensor:
        return value.clone()


@dataclass(frozen=True)
class CopiedWeights(Edit):
    """Copy weights and head outputs and change nothing."""

    def weights(self, weights: Tensor, part: AttentionPart) -> Tensor:
        return weights.clone()

    def head_out(self, head_out: Tensor, part: AttentionPart) -> Tensor:
        return head_out.clone()


@dataclass(frozen=True)
class Everywhere(Edit):
    """Set the same weight on every key, allowed or not."""

    def weights(self, weights: Tensor, part: AttentionPart) -> Tensor:
        return torch.where(part.chosen(self.where), torch.ones_like(weights), weights)


def ramp(n: int) -> Tensor:
    """Return 0 … 1 over the features; LayerNorm would remove a constant again."""
    return torch.arange(n) / n


@dataclass(frozen=True)
class Added(Edit):
    """Add a ramp over the features to an intermediate."""

    def activation(self, value: Tensor, part: ActivationPart) -> Tensor:
        return value + part.chosen(self.where) * ramp(value.shape[-1])
