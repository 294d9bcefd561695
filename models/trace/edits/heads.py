"""Edits of what a head passes on."""

from dataclasses import dataclass

from torch import Tensor

from models.trace.edits.base import AttentionPart, Edit


@dataclass(frozen=True)
class HeadOff(Edit):
    """Switch heads off: what they pass on becomes 0, before W_O (Michel et al. 2019, eq. 3, ξ = 0).

    Zero is off the distribution that the layers after it were trained on."""

    def head_out(self, head_out: Tensor, part: AttentionPart) -> Tensor:
        return head_out.masked_fill(part.chosen(self.where), 0.0)

    def effects(self) -> list[str]:
        return ["head output set to 0"]
