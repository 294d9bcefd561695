"""Numbers that an edit takes from other runs, and the edit that collects them there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from models.trace.edits.base import ActivationPart, AttentionPart, Edit


@dataclass(frozen=True, eq=False)
class PositionVectors:
    """Vectors by position; the head axis is absent for an intermediate without heads.

    Positions where `covered` is False keep what they have; None means that all are covered. If
    `repeats`, positions beyond the last take its vector, otherwise they keep what they have.
    """

    vectors: Float[Tensor, "*head position feature"]
    covered: Bool[Tensor, "*position"] | None = None
    repeats: bool = False

    def at(
        self, positions: Sequence[int], like: Float[Tensor, ...]
    ) -> tuple[Float[Tensor, "*head query feature"], Bool[Tensor, "query 1"]]:
        """Return the vectors at these positions, in the dtype of `like`, and where they apply."""
        n = self.vectors.shape[-2]
        indices = torch.tensor(list(positions))
        index = indices.clamp(max=n - 1)
        applies = (indices < n) | self.repeats
        if self.covered is not None:
            applies = applies & self.covered[index]
        vectors = self.vectors[..., index, :].to(like.device, like.dtype)
        return vectors, applies[:, None].to(like.device)


Material = Mapping[
    str, PositionVectors
]  # by the path of an attention or the name of an intermediate


def material_for(material: Material | None, name: str, edit: Edit) -> PositionVectors:
    """Return the numbers of an edit at this place.

    Raises:
        RuntimeError: the edit has not been given its numbers yet.
    """
    if material is None or name not in material:
        raise RuntimeError(
            f"{edit}: the numbers of the other run are missing; run it through a Scope, or pass the "
            "edit through Scope.with_material"
        )
    return material[name]


def replace_vectors(
    edit: Edit, table: PositionVectors, t: Float[Tensor, "row head query x"], part: AttentionPart
) -> Float[Tensor, "row head query x"]:
    """Put the vectors of a table where the edit applies; shorter ones are padded with 0."""
    vectors, applies = table.at(part.queries, t)
    vectors = vectors[list(part.heads)]
    n, n_wanted = vectors.shape[-1], t.shape[-1]
    if n != n_wanted:  # weights on the keys so far, while generating
        vectors = torch.nn.functional.pad(vectors, (0, n_wanted - n))
    return torch.where(part.chosen(edit.where) & applies, vectors, t)


class PartsOfHeads:
    """Tensors (row, head, query, x) of one attention, in the order in which they are computed.

    Heads come at once, or one after the other; the queries of a recurrent decoder come by steps.
    """

    def __init__(self) -> None:
        self._by_head: dict[int, list[Tensor]] = {}

    def add(self, part: AttentionPart, t: Float[Tensor, "row head query x"]) -> None:
        """Add the tensor of a part of the attention."""
        self._by_head.setdefault(part.heads[0], []).append(t)

    @property
    def n_steps(self) -> int:
        """The number of tensors of one head, above 1 if its queries come by steps."""
        return max(map(len, self._by_head.values()), default=0)

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors as they were added, head by head."""
        return [t for _, parts in sorted(self._by_head.items()) for t in parts]

    def whole(
        self, of: Sequence[Shaped[Tensor, ...]] | None = None
    ) -> Float[Tensor, "row head query x"]:
        """Return one tensor of all heads and queries; `of` replaces the `tensors`."""
        rest = iter(self.tensors if of is None else of)
        steps = [[next(rest) for _ in parts] for _, parts in sorted(self._by_head.items())]
        return torch.cat([torch.cat(parts, dim=2) for parts in steps], dim=1)


@dataclass(frozen=True)
class RecordingEdit(Edit, stored=False):
    """Change nothing, and keep weights and intermediates exactly as later edits receive them."""

    wants_weights: bool = False
    wants_activations: bool = False
    site_weights: dict[str, PartsOfHeads] = field(default_factory=dict, compare=False)
    activations: dict[str, Tensor] = field(default_factory=dict, compare=False)

    def forget(self) -> None:
        self.site_weights.clear()
        self.activations.clear()

    def changes(self, what: str) -> bool:
        return {"weights": self.wants_weights, "activation": self.wants_activations}.get(
            what, False
        )

    def may_change(self, name: str) -> bool:
        return False

    def weights(
        self, weights: Float[Tensor, "row head query key"], part: AttentionPart
    ) -> Float[Tensor, "row head query key"]:
        """Keep the weights; they may come head by head, those of a recurrent decoder by steps."""
        parts = self.site_weights.setdefault(part.site, PartsOfHeads())
        parts.add(part, weights[:1].float().cpu())
        return weights

    def activation(
        self, value: Float[Tensor, "row token feature"], part: ActivationPart
    ) -> Float[Tensor, "row token feature"]:
        """Keep an intermediate."""
        self.activations[part.name] = value[0].float().cpu()
        return value

    def weights_of(self, site: str) -> Float[Tensor, "head query key"]:
        """Return the weights of an attention."""
        return self.site_weights[site].whole()[0]
