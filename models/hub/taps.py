"""The residual stream and the feed-forward of families that are known, by the paths of their modules. Of other families none is
invented: a run has no such activations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from models.trace.deferred import Product


@dataclass(frozen=True)
class Tap:
    """One intermediate: what goes into the module at a path, or comes out of it, or what `make` says is made of that."""

    name: str  # in the run
    of_input: bool
    formula: str
    feature: str = "d_model"
    largest: int = 0  # numbers; what is larger is not kept, so that a long text's run stays small; 0: however large
    make: Callable[[Tensor], Product] | None = None


@dataclass(frozen=True)
class Taps:
    """Path of a module → what is recorded there. Hooks look here at each pass."""

    by_path: dict[str, tuple[Tap, ...]] = field(default_factory=dict)
