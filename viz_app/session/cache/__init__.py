"""Everything the app keeps between reruns and shares between sessions. What is returned here is read-only by convention."""

from viz_app.session.cache.findings import drawn, formula_measures, reach, shuffled, vector_changes
from viz_app.session.cache.opened import (
    description,
    drawn_of,
    is_open,
    opened_as,
    scope,
    snapshot,
    swapped,
    without_positions,
)
from viz_app.session.cache.runs import (
    again,
    decoded,
    forced,
    masked_runs,
    run_together,
    single_pass,
    snapshot_trace,
    swapped_trace,
    trace,
    written,
)

__all__ = [
    "again",
    "decoded",
    "description",
    "drawn",
    "drawn_of",
    "forced",
    "formula_measures",
    "is_open",
    "masked_runs",
    "opened_as",
    "reach",
    "run_together",
    "scope",
    "shuffled",
    "single_pass",
    "snapshot",
    "snapshot_trace",
    "swapped",
    "swapped_trace",
    "trace",
    "vector_changes",
    "without_positions",
    "written",
]  # fmt: skip
