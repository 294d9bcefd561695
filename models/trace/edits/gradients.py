"""Edits that change nothing, but through which gradients of a run are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor

from models.errors import IndistinctRowsError
from models.trace.edits.base import AttentionPart, Edit
from models.trace.edits.material import PartsOfHeads


@dataclass(frozen=True)
class WeightGates(Edit, stored=False):
    """Multiply each weight by a gate where it takes its value: Σ_j g(i,j)·a(i,j)·v_j.

    `gates` (row, head, query, key) by site; at 1 the run is unchanged, and the derivative by a gate
    is a(i,j)·∂f/∂a(i,j).
    """

    gates: Mapping[str, Tensor] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_differentiated(self) -> bool:
        return True

    def of_row(self, row: int) -> Edit | None:
        return replace(self, gates={site: _of_row(t, row) for site, t in self.gates.items()})

    def value_weights(
        self, weights: Float[Tensor, "row head query key"], part: AttentionPart
    ) -> Float[Tensor, "row head query key"]:
        """Multiply by the gates of these queries."""
        if part.site not in self.gates:
            return weights
        gates = _of_part(self.gates[part.site], part)
        return weights * gates[:, :, part.queries[0] : part.queries[-1] + 1].to(weights)


@dataclass(frozen=True)
class HeadOutputGradients(Edit, stored=False):
    """Add zeros to head outputs, with respect to which the run can be differentiated.

    The head outputs of the attentions in `held` are constants for the derivative, whatever came
    before them, such as an earlier query of a recurrent decoder.
    """

    held: frozenset[str] = frozenset()
    head_zeros: dict[str, PartsOfHeads] = field(default_factory=dict, compare=False, repr=False)
    head_outs: dict[str, PartsOfHeads] = field(default_factory=dict, compare=False, repr=False)

    def forget(self) -> None:
        for collected in (self.head_zeros, self.head_outs):
            collected.clear()

    def of_row(self, row: int) -> Edit | None:
        """Raise IndistinctRowsError: it collects gradients of the whole batch."""
        raise IndistinctRowsError("gradients are collected over all rows, so none is run alone")

    def head_out(
        self, head_out: Float[Tensor, "row head query d_head"], part: AttentionPart
    ) -> Float[Tensor, "row head query d_head"]:
        """Add zeros; a recurrent decoder asks for those of one query after the other."""
        zeros = torch.zeros_like(head_out, requires_grad=True)
        self.head_zeros.setdefault(part.site, PartsOfHeads()).add(part, zeros)
        self.head_outs.setdefault(part.site, PartsOfHeads()).add(part, head_out.detach())
        return (head_out.detach() if part.site in self.held else head_out) + zeros


@dataclass(frozen=True)
class GivenWeights(Edit, stored=False):
    """Put these weights in place of the model's; they can be differentiated.

    `tensors` (row, head, query, key) by site, or with one entry where all rows, heads or queries
    share it. The mask is applied after it, as after any edit of weights.
    """

    tensors: Mapping[str, Tensor] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_differentiated(self) -> bool:
        return any(tensor.requires_grad for tensor in self.tensors.values())

    def of_row(self, row: int) -> Edit | None:
        tensors = {site: _of_row(t, row) for site, t in self.tensors.items()}
        edit = super().of_row(row)
        return None if edit is None else replace(edit, tensors=tensors)

    def weights(
        self, weights: Float[Tensor, "row head query key"], part: AttentionPart
    ) -> Float[Tensor, "row head query key"]:
        """Put in the rows of these queries, as far as their keys exist yet."""
        if part.site not in self.tensors:
            return weights
        imposed = _of_part(self.tensors[part.site], part).to(weights)[..., : part.n_key]
        if imposed.shape[2] > 1:
            imposed = imposed[:, :, part.queries[0] : part.queries[-1] + 1]
        return torch.where(part.chosen(self.where), imposed, weights)


def _of_row(t: Float[Tensor, "#row #head #query key"], row: int) -> Tensor:
    return t if len(t) == 1 else t[row : row + 1]


def _of_part(t: Float[Tensor, "#row #head #query key"], part: AttentionPart) -> Tensor:
    """Return the rows and heads that a part covers, from a tensor of all or one shared by all.

    An extra row, which repeats the last one (models.runs.edited_answers), takes the last.
    """
    if t.shape[0] not in (1, len(part.rows)):
        t = t[[min(row, t.shape[0] - 1) for row in part.rows]]
    return t if t.shape[1] in (1, len(part.heads)) else t[:, list(part.heads)]
