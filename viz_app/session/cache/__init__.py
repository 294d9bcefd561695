"""Results kept between reruns and shared by all sessions; read-only by convention."""

from viz_app.session.cache.findings import (
    formula_measures,
    head_effects,
    reach,
    rewritten,
    shuffle,
    trace_finding,
    vector_changes,
)
from viz_app.session.cache.opened import (
    changed_model,
    checkpoint_drawing,
    description,
    is_open,
    opened_as,
    scope,
)
from viz_app.session.cache.runs import (
    autoregression,
    changed_run,
    given_trace,
    masked_runs,
    run_together,
    single_pass,
    trace,
    unmasked_run,
    with_changes_of,
    written_ids,
)

__all__ = [
    "autoregression",
    "changed_model",
    "changed_run",
    "checkpoint_drawing",
    "description",
    "formula_measures",
    "given_trace",
    "head_effects",
    "is_open",
    "masked_runs",
    "opened_as",
    "reach",
    "rewritten",
    "run_together",
    "scope",
    "shuffle",
    "single_pass",
    "trace",
    "trace_finding",
    "unmasked_run",
    "vector_changes",
    "with_changes_of",
    "written_ids",
]
