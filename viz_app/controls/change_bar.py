"""The bar above every page: each change of the run, with a button that undoes it."""

from collections.abc import Collection
from functools import partial

import streamlit as st

from models import CheckpointError
from models.runs.spec import RunSpec
from viz_app import checkpoints, ui, words
from viz_app.drawing.sites import by_kind
from viz_app.session import cache, run_changes
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import LiveSession, noted, unchanged


def show_changes(
    session: LiveSession,
    original: CurrentRun,
    *,
    is_changed: bool = True,
    named: Collection[str] = (),
) -> CurrentRun:
    """Show the session's changes and return the run with them.

    Changes in `named` are shown by the page itself. The result is the unchanged run if the page is
    not `is_changed`, or if a change cannot be made; the bar then names every change.
    """
    if not is_changed:
        session.change = unchanged
        return original
    run_changes.clear_forced(original)
    spec = run_changes.chosen_spec(original)
    change = partial(cache.with_changes_of, spec)
    try:
        run = change(original)
    except CheckpointError as error:
        ui.show_note(st.container(), checkpoints.error_message(error), bad=True, key="changes")
        session.change = unchanged
        _name_changes(original, spec, named=())
        return original
    session.change = change
    _name_changes(run, spec, named)
    return run


def _name_changes(run: CurrentRun, spec: RunSpec, named: Collection[str]) -> None:
    trained_with = run.unchanged.scope.model.similarity
    trace = run.unchanged.trace
    names = words.changes(spec, trained_with, trace.attention)
    if not (names := {change: name for change, name in names.items() if change not in named}):
        return
    with st.container(horizontal=True, gap="small", key="changes"):
        for change, name in names.items():
            st.button(
                name,
                icon=":material/undo:",
                key=f"undo-{change}",
                help="Changed about the run on every page. Click to undo.",
                on_click=noted(run_changes.undo_change),
                args=(change, tuple(kind for kind, _ in by_kind(trace))),
            )
