"""One named intermediate of a run."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from models.trace.lazy import LazyTensor, read_lazy


@dataclass(frozen=True)
class Activation:
    """A named intermediate, the meaning of its axes, and the formula that made it."""

    name: str
    lazy_value: LazyTensor  # (batch, token, feature)
    axes: tuple[str, str, str]
    formula: str
    tokens: tuple[str, ...] = ()

    @property
    def value(self) -> Float[Tensor, "batch token feature"]:
        """The tensor, worked out if it is lazy."""
        return read_lazy(self.lazy_value)
