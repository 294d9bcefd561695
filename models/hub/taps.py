"""The residual stream and the feed-forward of families that are known, by the paths of their modules. Of other families none is
invented: a run has no such activations."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Tap:
    """One intermediate: what goes into the module at a path, or comes out of it."""

    name: str               # in the run
    of_input: bool
    formula: str
    feature: str = "d_model"
    largest: int = 0        # numbers; what is larger is not kept, so that a long text's run stays small; 0: however large


@dataclass(frozen=True)
class Taps:
    """Path of a module → what is recorded there."""

    at: dict[str, tuple[Tap, ...]] = field(default_factory=dict)
