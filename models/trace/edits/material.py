"""Numbers that an edit takes from other runs, and the edit that collects them there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.trace.edits.base import ActivationPart, AttentionPart, Edit


@dataclass(frozen=True, eq=False)
class Table:
    """Vectors by position: (*head, position, feature), of an intermediate without heads.

    Positions where `covered` is False keep what they have; None means that all are covered. If
    `repeats`, positions beyond the last take its vector, otherwise they keep what they have.
    """

    vectors: Float[Tensor, "*head position feature"]
    covered: Bool[Tensor, "*position"] | None = None
    repeats: bool = False

    def at(
        self, positions: Sequence[int], like: Float[Tensor, ...]
    ) -> tuple[Float[Tensor, "*head query feature"], Bool[Tensor, "query 1"]]:
        """Return the vectors at these positions and where they apply, as `like` in dtype."""
        n = self.vectors.shape[-2]
        wanted = torch.tensor(list(positions))
        index = wanted.clamp(max=n - 1)
        applies = (wanted < n) | self.repeats
        if self.covered is not None:
            applies = applies & self.covered[index]
        vectors = self.vectors[..., index, :].to(like.device, like.dtype)
        return vectors, applies[:, None].to(like.device)


Material = Mapping[str, Table]  # by the path of an attention or the name of an intermediate


def table_of(material: Material | None, name: str, edit: Edit) -> Table:
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


def put_in(
    edit: Edit, table: Table, t: Float[Tensor, "row head query x"], part: AttentionPart
) -> Float[Tensor, "row head query x"]:
    """Put the vectors of a table where the edit applies; shorter ones are filled up with 0."""
    vectors, applies = table.at(part.queries, t)
    vectors = vectors[list(part.heads)]
    n, n_wanted = vectors.shape[-1], t.shape[-1]
    if n != n_wanted:  # weights on the keys so far, while generating
        vectors = torch.nn.functional.pad(vectors, (0, n_wanted - n))
    return torch.where(part.chosen(edit.where) & applies, vectors, t)


@dataclass(frozen=True)
class Kept(Edit, stored=False):
    """Change nothing, and keep weights and intermediates exactly as later edits meet them."""

    wants_weights: bool = False
    wants_activations: bool = False
    site_weights: dict[str, list[Tensor]] = field(default_factory=dict, compare=False)
    activations: dict[str, Tensor] = field(default_factory=dict, compare=False)

    def changes(self, what: str) -> bool:
        return {"weights": self.wants_weights, "activation": self.wants_activations}.get(
            what, False
        )

    def weights(
        self, weights: Float[Tensor, "row head query key"], part: AttentionPart
    ) -> Float[Tensor, "row head query key"]:
        """Keep the weights; those of a recurrent decoder come one step at a time."""
        self.site_weights.setdefault(part.site, []).append(weights[0].float().cpu())
        return weights

    def activation(
        self, value: Float[Tensor, "row token feature"], part: ActivationPart
    ) -> Float[Tensor, "row token feature"]:
        """Keep an intermediate."""
        self.activations[part.name] = value[0].float().cpu()
        return value

    def weights_of(self, site: str) -> Float[Tensor, "head query key"]:
        """Return the weights of an attention."""
        return torch.cat(self.site_weights[site], dim=1)
