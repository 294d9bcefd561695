"""The frame of every page.

It draws what a page declares (views/page.py), for the current run and for the pinned one beside it.
"""

import streamlit as st

from models import InputError
from viz_app import ui
from viz_app.components.catalogue import SECTIONS
from viz_app.components.mounting import show
from viz_app.controls import pick
from viz_app.controls.change_bar import show_changes
from viz_app.controls.other_models import offer_models
from viz_app.controls.pin_bar import open_pinned, run_strips
from viz_app.drawing.notes import plain_sentence
from viz_app.session import url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import LiveSession
from viz_app.session.parameters import Switch
from viz_app.views.frame.one_run import Draw, OneRun
from viz_app.views.frame.two_runs import BESIDE, TwoRuns
from viz_app.views.page import Find, Page

SHOWS_DIFFERENCE = Switch("difference")


def show_page(page: Page, session: LiveSession, original: CurrentRun) -> Draw | None:
    """Draw the page of this run with the session's changes, beside the pinned run if there is one.

    Return the function that makes its pictures of another run; None if they cannot be made at every
    keystroke.
    """
    named = _named_by_section(page, original)
    run = show_changes(session, original, is_changed=page.shows_changes, named=named)
    ui.headline(page.question, page.answer(run))
    find = page.views[_section(page, run)]
    view = find(run)
    is_of_run = isinstance(view, str) or view.is_of_run
    pinned, other = (
        open_pinned(session, run, is_changed=page.shows_changes) if is_of_run else (None, None)
    )
    session.beside = pinned and pinned.beside
    can_differ = not isinstance(view, str) and view.quantities is not None
    rooms = run_strips(
        session, run, pinned, other, _offer_difference if can_differ else lambda: None
    )
    if isinstance(view, str):
        with rooms.current:
            ui.run_strip(run.trace, run.terms, run.stale)
        if other is not None:
            with rooms.pinned:
                ui.run_strip(other.trace, other.terms, False, BESIDE)
        with st.container(key="explanation"):
            st.markdown(view)
        offer_models(find, run)
        return None
    one = OneRun(page, view, view.choose(run), session, rooms.current)
    if pinned is None or other is None:
        session.pinned_pictures = None
        return one.draw(run)
    both = TwoRuns(one, find, run, pinned, other, rooms)
    return both.draw_difference() if can_differ and url_state.get(SHOWS_DIFFERENCE) else both.draw()


def _offer_difference() -> None:
    """Draw the switch between both runs and their difference."""
    about = "Show this run minus the pinned run, number by number, instead of both."
    pick.pick_setting("Difference", SHOWS_DIFFERENCE, help=about)


def _named_by_section(page: Page, run: CurrentRun) -> tuple[str, ...]:
    """Return the changes that the chosen section lists; none if this run has no such section."""
    if not page.names:
        return ()
    chosen = url_state.get(page.section) if page.section else ""
    section = chosen or next(
        (name for name, find in page.views.items() if not _why_none(find, run)), ""
    )
    if section not in page.views or _why_none(page.views[section], run):
        return ()
    return page.names.get(section, ())


def _section(page: Page, run: CurrentRun) -> str:
    """Let the reader choose one of several views of the page.

    Those that the model lacks are disabled.
    """
    if page.section is None:
        return next(iter(page.views))
    why = {name: _why_none(find, run) for name, find in page.views.items()}
    reasons = {name: plain_sentence(reason) for name, reason in why.items() if reason}
    available = [name for name in why if name not in reasons]
    chosen = url_state.get(page.section) or [*available, *why][0]
    chosen = st.segmented_control(
        "Section",
        list(page.views),
        required=True,
        label_visibility="collapsed",
        **url_state.bound(page.section, chosen),
    )
    show(SECTIONS, {"control": page.section.name, "reasons": reasons}, key="section-reasons")
    return chosen


def _why_none(find: Find, run: CurrentRun) -> str:
    """Return why a section has no view of this model; "" if it could have one."""
    try:
        view = find(run)
    except InputError:
        return ""
    return view if isinstance(view, str) else ""
