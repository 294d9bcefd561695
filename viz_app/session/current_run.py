"""What a page is given: a run of a checkpoint on two texts."""

from dataclasses import dataclass

from models import Scope, Trace
from viz_app import words


@dataclass(frozen=True)
class CurrentRun:
    """A run to show. `stale` is set while what stands in the sidebar cannot be run and the last good run stays."""

    scope: Scope
    trace: Trace
    stale: bool = False

    @property
    def terms(self) -> words.Terms:
        return words.terms(self.scope.task, self.scope.name)
