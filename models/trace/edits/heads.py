"""Edits of head outputs."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from models.trace.edits.base import AttentionPart, Edit


@dataclass(frozen=True)
class HeadOff(Edit):
    """Switch heads off: their outputs become 0, before W_O (Michel et al. 2019, eq. 3, ξ = 0).

    Zero lies outside the distribution that the later layers were trained on.
    """

    def head_out(
        self, head_out: Float[Tensor, "row head query d_head"], part: AttentionPart
    ) -> Float[Tensor, "row head query d_head"]:
        """Set the outputs of the chosen heads to 0."""
        return head_out.masked_fill(part.chosen(self.where), 0.0)

    def effects(self) -> list[str]:
        return ["head output set to 0"]
