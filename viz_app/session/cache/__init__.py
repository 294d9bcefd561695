"""Everything the app keeps between reruns and shares between sessions. What is returned here is read-only by convention."""

from viz_app.session.cache.findings import (
    formula_measures,
    reach,
    rewritten,
    shuffle,
    trace_finding,
    vector_changes,
)
from viz_app.session.cache.opened import (
    checkpoint_drawing,
    description,
    is_open,
    opened_as,
    scope,
    snapshot,
    with_similarity,
    without_positions,
)
from viz_app.session.cache.runs import (
    autoregression,
    masked_runs,
    row_trace,
    run_together,
    single_pass,
    snapshot_trace,
    swapped_trace,
    teacher_forced_trace,
    trace,
    unmasked_run,
    written_ids,
)

__all__ = [
    "autoregression", "checkpoint_drawing", "description", "formula_measures", "is_open", "masked_runs", "opened_as", "reach", "rewritten",
    "row_trace", "run_together", "scope", "shuffle", "single_pass", "snapshot", "snapshot_trace", "swapped_trace",
    "teacher_forced_trace", "trace", "trace_finding", "unmasked_run", "vector_changes", "with_similarity", "without_positions", "written_ids",
]  # fmt: skip
