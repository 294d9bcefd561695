"""The progress bar of a model being opened, with a button that keeps the current model."""

from collections.abc import Callable
from typing import Literal

import streamlit as st

from models import Scope
from viz_app.components.catalogue import OPENING
from viz_app.components.mounting import show
from viz_app.session import cache, opening, opening_route
from viz_app.session.live import LiveSession
from viz_app.session.opening import Opening

Place = Literal["opening", "pinned_opening"]  # fields of LiveSession
WAIT = 0.5  # s that a rerun waits for the first model, so that reruns leave it the processor


def open_scope(session: LiveSession, name: str, place: Place = "opening") -> Scope | None:
    """Return the checkpoint; None while it is being opened.

    `place` is the session's field for that.

    Raises:
        CheckpointError: it could not be opened.
    """
    previous: Opening | None = getattr(session, place)
    pending = previous
    if pending is None or pending.key != cache.opened_as(name):
        pending = opening.ask(name, session.token)
    if pending is not previous:
        leave(session, place)
    if pending is None:
        return cache.scope(name)
    seconds = opening.PATIENCE if pending is not previous else 0 if session.run else WAIT
    if not pending.ready(seconds):
        setattr(session, place, pending)
        return None
    setattr(session, place, None)
    return opening.result(pending)


def leave(session: LiveSession, place: Place = "opening") -> None:
    """Stop waiting for the model that is being opened."""
    if (awaited := getattr(session, place)) is not None:
        awaited.give_up(session.token)
    setattr(session, place, None)


def bar(
    session: LiveSession,
    pending: Opening,
    stop: Callable[[], None] | None,
    key: str = "opening",
    says: str = "Keep the current model.",
) -> None:
    """Show the progress of an opening, with a button whose help text is `says`.

    The browser part polls the progress and reruns the page at the end.
    """
    progress = {
        "number": pending.number,
        "share": pending.share,
        "progress": pending.progress,
        "path": opening_route.path(),
        "token": session.token,
    }
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key=key):
        show(OPENING, progress, key=f"{key} progress", on_ready=lambda: None)
        if stop:
            st.button("Stop", key=f"stop-{key}", on_click=stop, help=says)
