"""A run of the same texts by a variant of the model: at a training step, under another similarity."""

from dataclasses import replace

from viz_app.session import cache
from viz_app.session.current_run import CurrentRun


def under_similarity(run: CurrentRun, name: str) -> CurrentRun:
    """Return the run under the similarity of this name, "" for the model's own."""
    return replace(run, trace=cache.swapped_trace(run.scope, name, run.trace)) if name else run


def at_step(run: CurrentRun, step: int | None) -> CurrentRun:
    """Return the run under the weights of this step, None for the last.

    Raises:
        CheckpointError: the snapshot cannot be read.
    """
    if step is None:
        return run
    return replace(
        run,
        scope=cache.snapshot(run.scope, step),
        trace=cache.snapshot_trace(run.scope, step, run.trace),
    )


def compared(run: CurrentRun, step: int | None, name: str) -> CurrentRun:
    """Return the run at a step and under a similarity."""
    return under_similarity(at_step(run, step), name)
