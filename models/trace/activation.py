"""One named intermediate of a run."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from models.trace.deferred import Deferred, Product


@dataclass(frozen=True)
class Activation:
    """One named intermediate: value (batch, token, feature), what its axes mean, and how it was made."""

    name: str
    value: Tensor | Product = Deferred()  # noqa: RUF009 (a descriptor; reads as a tensor)
    axes: tuple[str, str, str]
    formula: str
    tokens: tuple[str, ...] = ()

    @property
    def deferred(self) -> Tensor | Product:
        """The value without working it out."""
        return self._value
