"""Edits for the tests of the protocol: some that only a test would make, and sketches of those to come."""

from dataclasses import dataclass

import torch
from torch import Tensor

from models.trace.edits import ActivationPart, AttentionPart, Edit


@dataclass(frozen=True)
class Copied(Edit):
    """Changes nothing, but copies every intermediate."""

    def activation(self, value: Tensor, part: ActivationPart) -> Tensor:
        return value.clone()


@dataclass(frozen=True)
class CopiedWeights(Edit):
    """Changes nothing, but copies weights and head outputs."""

    def weights(self, weights: Tensor, part: AttentionPart) -> Tensor:
        return weights.clone()

    def head_out(self, head_out: Tensor, part: AttentionPart) -> Tensor:
        return head_out.clone()


@dataclass(frozen=True)
class Everywhere(Edit):
    """Asks for the same weight on every key, allowed or not."""

    def weights(self, weights: Tensor, part: AttentionPart) -> Tensor:
        return torch.where(part.chosen(self.where), torch.ones_like(weights), weights)


def ramp(n: int) -> Tensor:
    """0 … 1 over the features; a LayerNorm would take a constant out again."""
    return torch.arange(n) / n


@dataclass(frozen=True)
class Added(Edit):
    """Adds a ramp over the features to an intermediate."""

    def activation(self, value: Tensor, part: ActivationPart) -> Tensor:
        return value + part.chosen(self.where) * ramp(value.shape[-1])


@dataclass(frozen=True)
class HeadScale(Edit):
    factor: float = 1.0

    def head_out(self, head_out: Tensor, part: AttentionPart) -> Tensor:
        return torch.where(part.chosen(self.where), self.factor * head_out, head_out)


@dataclass(frozen=True)
class SetWeights(Edit):
    row: tuple[float, ...] = ()

    def weights(self, weights: Tensor, part: AttentionPart) -> Tensor:
        row = weights.new_zeros(part.n_key)
        row[: len(self.row)] = weights.new_tensor(self.row)
        return torch.where(part.chosen(self.where), row, weights)


@dataclass(frozen=True)
class ZeroValue(Edit):
    key: int = 0

    def head_out(self, head_out: Tensor, part: AttentionPart) -> Tensor:
        part_of_key = part.weights[..., self.key, None] * part.values[..., None, self.key, :]
        return torch.where(part.chosen(self.where), head_out - part_of_key, head_out)


@dataclass(frozen=True)
class Patch(Edit):
    """The output of one head at one query, of another run."""

    values: tuple[float, ...] = ()

    def head_out(self, head_out: Tensor, part: AttentionPart) -> Tensor:
        return torch.where(part.chosen(self.where), head_out.new_tensor(self.values), head_out)
