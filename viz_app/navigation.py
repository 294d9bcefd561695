"""The frame of the app: page settings, navigation, and one fragment that holds the sidebar and the page.

The fragment makes an edit cheap: a key typed in the sidebar reruns it alone, not the frame around it.
"""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import streamlit as st

from models import InputError
from viz_app import checkpoints, ui, words
from viz_app.components.catalogue import LIVE, TOOLS
from viz_app.components.mounting import show
from viz_app.controls.change_bar import changed_run
from viz_app.session import live, process, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import LiveSession, Pictures
from viz_app.session.parameters import LONGEST_TEXT
from viz_app.session.respond import answering
from viz_app.sidebar.examples import holds_lines
from viz_app.sidebar.form import sidebar
from viz_app.views.attention.page import attention
from viz_app.views.decoding.page import decoding
from viz_app.views.from_rnn.page import from_rnn
from viz_app.views.inside.page import inside
from viz_app.views.layer.page import layer
from viz_app.views.masks.page import masks
from viz_app.views.models.page import models
from viz_app.views.positions.page import positions
from viz_app.views.task.page import task

UNFIT = "This address asks for what is not there: {}. What is usual stands in its place."
_STYLE = f"<style>{Path(__file__).with_name('style.css').read_text('utf-8')}</style>"

# Draws a page; returns how it makes its pictures of another run, if they can be made beside Streamlit.
View = Callable[[CurrentRun], Callable[[CurrentRun], Pictures] | None]

UNCHANGED = (from_rnn, models)  # pages that compare models as they were trained
NAMED_THERE = {masks: ("edits",)}  # page → changes that it shows and undoes itself

# address → (title, page); the first is where a newcomer lands
VIEWS: dict[str, tuple[str, View]] = {
    "attention": ("Attention", attention),
    "task": ("Task", task),
    "inside": ("Inside a head", inside),
    "layer": ("A layer", layer),
    "positions": ("Positions", positions),
    "masks": ("Masks", masks),
    "decoding": ("Decoding", decoding),
    "from-rnn": ("From RNN to attention", from_rnn),
    "models": ("Models", models),
}


def main() -> None:
    """One full run of the app."""
    process.prepare()
    st.set_page_config(
        page_title="Attnscope", page_icon="👁", layout="wide", initial_sidebar_state=290
    )
    st.html(_STYLE + words.entries())
    pages = {
        st.Page(lambda: None, title=title, url_path=address if i else None, default=i == 0): view
        for i, (address, (title, view)) in enumerate(VIEWS.items())
    }
    address, (title, view) = next(
        iter(VIEWS.items())
    )  # Streamlit serves the first page at "/" alone; it has a name, too
    pages[st.Page(lambda: None, title=title, url_path=address, visibility="hidden")] = view
    _page(pages[st.navigation(list(pages), position="top")])
    process.settle()


@st.fragment
def _page(view: View) -> None:
    url_state.arrive(view)
    session = live.session()
    if session.view is not view:
        session.view, session.answer = view, None
    shown = sidebar()
    if shown is None:
        ui.nothing(session.opening is not None)
    else:
        pictures = _pictures(view, session, shown)
        session.answer = (
            answering(session, pictures) if pictures and session.scope is shown.scope else None
        )
    typed = session.scope.model.text_fields if session.scope else ()
    fields = [url_state.parameter_of(field).name for field in typed]
    presents = {"presents": url_state.get(ui.PRESENT), "fields": fields}
    show(TOOLS, presents, on_present=partial(url_state.keep, ui.PRESENT))
    if unfit := url_state.unfit():
        with st.sidebar:
            ui.note(st.empty(), UNFIT.format("; ".join(unfit)), bad=True, key="address")
    address = url_state.postpone() if session.opening else url_state.publish()
    listening = {
        "token": session.token,
        "path": live.path(),
        "open": session.is_open,
        "pause": session.pause,
        "longest": LONGEST_TEXT,
        "fields": fields,
        "lines": session.scope is not None and holds_lines(session.scope),
        "address": asdict(address),
    }
    show(LIVE, listening)


def _pictures(
    view: View, session: LiveSession, own: CurrentRun
) -> Callable[[CurrentRun], Pictures] | None:
    """Draw a page of the run with the session's changes; where the model fails in what only this page asks of it, say so."""
    try:
        is_changed, named = view not in UNCHANGED, NAMED_THERE.get(view, ())
        return view(changed_run(session, own, is_changed=is_changed, named=named))
    except InputError as error:
        ui.note(st.empty(), checkpoints.error_message(error), bad=True, key="failed")
        return None
