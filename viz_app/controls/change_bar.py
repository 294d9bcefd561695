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
from viz_app.session.live import LiveSession


def changed_run(
    session: LiveSession, own: CurrentRun, *, is_changed: bool = True, named: Collection[str] = ()
) -> CurrentRun:
    """Name the session's changes, except those that the page itself shows as `named`, and return the run with them: the unchanged
    run on a page that is not `is_changed`, and if a change cannot be made."""
    if not is_changed:
        session.change = _unchanged
        return own
    spec = run_changes.chosen(own)
    change = partial(_change, spec)
    try:
        run = change(own)
    except CheckpointError as error:
        ui.note(st.empty(), checkpoints.error_message(error), bad=True, key="changes")
        session.change = _unchanged
        return own
    session.change = change
    _name_changes(run, spec, named)
    return run


def _change(spec: RunSpec, own: CurrentRun) -> CurrentRun:
    """Make the same changes about another run of the same model."""
    return cache.changed_run(own, RunSpec(spec.model, own.spec.fields, spec.edits, spec.forced))


def _unchanged(own: CurrentRun) -> CurrentRun:
    return own


def _name_changes(run: CurrentRun, spec: RunSpec, named: Collection[str]) -> None:
    trained_with = run.unchanged.scope.model.similarity
    kinds = {kind: words.kind_short(sites[0]) for kind, sites in by_kind(run.unchanged.trace)}
    names = words.changes(spec, trained_with, kinds)
    if not (names := {change: name for change, name in names.items() if change not in named}):
        return
    with st.container(horizontal=True, gap="small", key="changes"):
        for change, name in names.items():
            st.button(
                name,
                icon=":material/undo:",
                key=f"undo-{change}",
                help="Changed about the run on every page. Click to undo.",
                on_click=run_changes.undo,
                args=(change, tuple(kinds)),
            )
