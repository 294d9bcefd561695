"""A model on its way, under the picker: how far it has come, and a button that keeps the one that stands."""

from collections.abc import Callable

import streamlit as st

from models import Scope
from viz_app.session import cache, opening
from viz_app.session.live import LiveSession
from viz_app.session.opening import Opening

TICK = 0.25  # s between two looks at how far it has come


def open_scope(session: LiveSession, name: str) -> Scope | None:
    """The checkpoint, None while it is being opened. Raises CheckpointError."""
    pending = session.opening
    if pending is None or pending.key != cache.opened_as(name):
        pending = opening.ask(name, session.token)
    if pending is not session.opening:
        leave(session)
    if pending is None:
        return cache.scope(name)
    if not pending.ready(0 if pending is session.opening else opening.PATIENCE):
        session.opening = pending
        return None
    session.opening = None
    return opening.result(pending)


def leave(session: LiveSession) -> None:
    """Wait no more for what is being opened."""
    if session.opening is not None:
        session.opening.give_up(session.token)
    session.opening = None


@st.fragment(run_every=TICK)
def bar(session: LiveSession, pending: Opening, stop: Callable[[], None] | None) -> None:
    """How far it has come, looked at again and again; the whole page runs again when it is ready or given up."""
    if pending.ready(0) or session.opening is not pending:
        st.rerun()
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="opening"):
        st.progress(pending.share, pending.progress)
        if stop:
            st.button("Stop", key="stop-opening", on_click=stop, help="Keep the model that stands.")
