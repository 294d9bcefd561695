"""The run that a page shows."""

from __future__ import annotations

from dataclasses import dataclass

from models import Scope, Trace
from models.runs.spec import ModelRef, RunSpec
from viz_app import words


@dataclass(frozen=True)
class CurrentRun:
    """A run to show.

    `stale` is set while the text in the boxes cannot be run and the last run is kept.

    `spec` determines the run; by default, the checkpoint as trained on the fields of the trace.
    `original` is the run of the unchanged model, None if this run is unchanged.
    """

    scope: Scope
    trace: Trace
    stale: bool = False
    spec: RunSpec = None  # type: ignore[assignment]
    original: CurrentRun | None = None

    def __post_init__(self) -> None:
        if self.spec is None:
            ref = ModelRef(str(self.scope.path))
            object.__setattr__(self, "spec", RunSpec(ref, tuple(self.trace.fields.values())))

    @property
    def terms(self) -> words.Terms:
        return words.terms(self.scope.task, self.scope.training.get("languages", ()))

    @property
    def unchanged(self) -> CurrentRun:
        """The run of the model as trained."""
        return self.original or self

    @property
    def input_ids(self) -> tuple[int, ...]:
        """The tokens that generation starts from: a source, or a prompt alone."""
        first = self.scope.model.fields[0]
        ids = self.trace.streams[first.stream].ids
        if not self.scope.model.continues:
            return ids
        return ids[: len(self.scope.input_ids(self.trace.fields[first.name]))]
