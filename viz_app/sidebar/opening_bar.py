"""A model on its way, under the picker: how far it has come, and a button that keeps the one that stands."""

from collections.abc import Callable

import streamlit as st

from models import Scope
from viz_app.session import cache, opening
from viz_app.session.live import LiveSession
from viz_app.session.opening import Opening

TICK = 0.25     # s between two looks at how far it has come


def opened(session: LiveSession, name: str) -> Scope | None:
    """The checkpoint, None while it is being opened. Raises CheckpointError."""
    asked = session.opening
    if asked is None or asked.key != cache.opened_as(name):
        asked = opening.ask(name, session.token)
    if asked is not session.opening:
        leave(session)
    if asked is None:
        return cache.scope(name)
    if not asked.ready(0 if asked is session.opening else opening.PATIENCE):
        session.opening = asked
        return None
    session.opening = None
    return opening.done(asked)


def leave(session: LiveSession) -> None:
    """Wait no more for what is being opened."""
    if session.opening is not None:
        session.opening.give_up(session.token)
    session.opening = None


@st.fragment(run_every=TICK)
def bar(session: LiveSession, asked: Opening, stop: Callable[[], None] | None) -> None:
    """How far it has come, looked at again and again; the whole page runs again when it is ready or given up."""
    if asked.ready(0) or session.opening is not asked:
        st.rerun()
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="opening"):
        st.progress(asked.share, asked.progress)
        if stop:
            st.button("Stop", key="stop-opening", on_click=stop, help="Keep the model that stands.")
