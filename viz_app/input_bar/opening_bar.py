"""The progress bar of a model being opened, with a button to keep the current model."""

from collections.abc import Callable
from typing import Literal

import streamlit as st

from models import Scope
from viz_app.components.catalogue import OPENING_BAR
from viz_app.components.mounting import show
from viz_app.session import cache, opening, opening_route
from viz_app.session.live import LiveSession, noted
from viz_app.session.opening import Opening

OpeningSlot = Literal["opening", "pinned_opening"]  # fields of LiveSession
WAIT = 0.5  # s that a rerun waits for the first model, so that reruns leave it the processor


def open_with_progress(
    session: LiveSession, name: str, place: OpeningSlot = "opening"
) -> Scope | None:
    """Return the checkpoint; None while it is being opened.

    `place` is the field of the session that holds the opening.

    Raises:
        CheckpointError: it could not be opened.
    """
    previous: Opening | None = getattr(session, place)
    pending = previous
    if pending is None or pending.key != cache.opened_as(name):
        pending = opening.opening_for(name, session.token)
    if pending is not previous:
        stop_waiting(session, place)
    if pending is None:
        return cache.scope(name)
    seconds = opening.BAR_DELAY if pending is not previous else 0 if session.run else WAIT
    if not pending.ready(seconds):
        setattr(session, place, pending)
        return None
    setattr(session, place, None)
    return opening.result(pending)


def stop_waiting(session: LiveSession, place: OpeningSlot = "opening") -> None:
    """Stop waiting for the model that is being opened."""
    if (awaited := getattr(session, place)) is not None:
        awaited.give_up(session.token)
    setattr(session, place, None)


def bar(
    session: LiveSession,
    pending: Opening,
    stop: Callable[[], None] | None,
    key: str = "opening",
    help_text: str = "Keep the current model.",
) -> None:
    """Show the progress of an opening, with a button that has a `help_text`.

    The browser part polls the progress and reruns the page at the end.
    """
    progress = {
        "number": pending.number,
        "share": pending.share,
        "progress": pending.progress,
        "path": opening_route.opening_path(),
        "token": session.token,
    }
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key=key):
        show(OPENING_BAR, progress, key=f"{key} progress", on_ready=lambda: None)
        if stop:
            st.button("Cancel", key=f"stop-{key}", on_click=noted(stop), help=help_text)
