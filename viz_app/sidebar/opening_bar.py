"""A model on its way, under the picker: how far it has come, and a button that keeps the one that stands."""

from collections.abc import Callable, Iterator
from itertools import count

import streamlit as st

from models import Scope
from viz_app.session import cache, opening
from viz_app.session.live import LiveSession
from viz_app.session.opening import Opening

TICK = 0.25  # s between two looks at how far it has come
WAIT = 0.5  # s that a look waits for the end, so that reruns do not take the processor from the opening


def open_scope(session: LiveSession, name: str) -> Scope | None:
    """The checkpoint, None while it is being opened. Raises CheckpointError."""
    pending = session.opening
    if pending is None or pending.key != cache.opened_as(name):
        pending = opening.ask(name, session.token)
    if pending is not session.opening:
        leave(session)
    if pending is None:
        return cache.scope(name)
    waits = opening.PATIENCE if pending is not session.opening else 0 if session.run else WAIT
    if not pending.ready(waits):
        session.opening = pending
        return None
    session.opening = None
    return opening.result(pending)


def leave(session: LiveSession) -> None:
    """Wait no more for what is being opened."""
    if session.opening is not None:
        session.opening.give_up(session.token)
    session.opening = None


def bar(session: LiveSession, pending: Opening, stop: Callable[[], None] | None) -> None:
    """Show how far it has come, again and again; the whole page runs again as soon as it is ready, or when it is given up."""
    _look(session, pending, stop, count())


@st.fragment(run_every=TICK)
def _look(
    session: LiveSession, pending: Opening, stop: Callable[[], None] | None, looks: Iterator[int]
) -> None:
    """One look: the first, which is part of the page's own run, does not wait."""
    if session.opening is not pending or pending.ready(WAIT if next(looks) else 0):
        st.rerun()
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="opening"):
        st.progress(pending.share, pending.progress)
        if stop:
            st.button("Stop", key="stop-opening", on_click=stop, help="Keep the model that stands.")
