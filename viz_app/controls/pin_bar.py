"""The pinned run above a page, beside the current one, with buttons that swap the two."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from models import CheckpointError, InputError
from viz_app import checkpoints, ui, words
from viz_app.input_bar.opening_bar import bar, open_with_progress, stop_waiting
from viz_app.session import pinned, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import LiveSession, noted
from viz_app.session.pinned import Pinned


class RunRooms(NamedTuple):
    """The rooms for the texts of the current and of the pinned run, and for a choice for both.

    They are the same room if nothing is pinned.
    """

    current: DeltaGenerator
    pinned: DeltaGenerator
    choice: DeltaGenerator


def toggle_pin(session: LiveSession, is_on: bool) -> None:
    """Pin the shown run, or unpin."""
    if is_on and session.run and session.picked:
        pinned.pin_run(session.picked, session.shown)
    else:
        pinned.unpin()


def open_pinned(
    session: LiveSession, run: CurrentRun, *, is_changed: bool = True
) -> tuple[Pinned, CurrentRun] | tuple[None, None]:
    """Return the pinned settings and their run beside this one.

    On a page that is not `is_changed` the pinned changes are dropped. Returns (None, None) if
    nothing is pinned, while the pinned model is being opened, and if it cannot be run, which a note
    then explains.
    """
    name = pinned.checkpoint()
    if not name:
        stop_waiting(session, "pinned_opening")
        return None, None
    try:
        scope = open_with_progress(session, checkpoints.folder(name), "pinned_opening")
        if scope is None:
            hint = "Show the current run alone."
            bar(session, session.pinned_opening, pinned.unpin, "opening-pinned", hint)
            return None, None
        settings = pinned.pinned_beside(scope, run)
        if not is_changed:
            settings = replace(settings, spec=None)
        return settings, settings.beside(run)
    except (CheckpointError, InputError) as error:
        message = checkpoints.error_message(error)
        ui.show_note(
            st.container(), f"The pinned run cannot be shown: {message}", bad=True, key="pin"
        )
        return None, None


def run_strips(
    session: LiveSession,
    run: CurrentRun,
    settings: Pinned | None,
    other: CurrentRun | None,
    draw_more: Callable[[], None] = lambda: None,
) -> RunRooms:
    """Name the current run and the pinned run, and return the rooms beside and below the names.

    `draw_more` draws further controls beside the buttons of the pinned run.
    """
    if settings is None or other is None:
        room = st.container()
        return RunRooms(room, room, room)
    left, right = st.columns(2, gap="medium")
    with left:
        with st.container(horizontal=True, key="current", vertical_alignment="center"):
            st.text(f"This run: {run_name(run)}")
            choice = st.container(width="content")
        place = st.container()
    with right:
        with st.container(horizontal=True, key="pinned", vertical_alignment="center"):
            name_pinned(session, run, settings, other)
            draw_more()
        return RunRooms(place, st.container(), choice)


def name_pinned(session: LiveSession, run: CurrentRun, settings: Pinned, other: CurrentRun) -> None:
    """Draw the pinned run's name and its buttons."""
    st.text(f"Pinned run: {run_name(other)}")
    _buttons(session, run, settings, other)


def _buttons(session: LiveSession, run: CurrentRun, settings: Pinned, other: CurrentRun) -> None:
    """Draw the buttons.

    Streamlit keeps their arguments, so these are parameters and not runs.
    """
    files = pinned.files_of(other)
    keeps_files = bool(files) and all(url_state.get(pinned.of_pinned(file)) for file in files)
    if settings.texts is None and not other.scope.model.text_fields:
        if keeps_files:
            _swap_button(session, run, other)
        return
    if settings.texts is None:
        st.button(
            "Keep its text",
            key="pin-keep",
            icon=":material/link_off:",
            help="Let the pinned run keep the text it reads now.",
            on_click=noted(pinned.keep_texts),
            args=(pinned.texts_of(other),),
        )
        return
    st.button(
        "Same text",
        key="pin-follow",
        icon=":material/link:",
        help="Let the pinned run read the text of this run, also while you type.",
        on_click=noted(pinned.follow_texts),
        args=(pinned.fields(other.scope),),
    )
    _swap_button(session, run, other)


def _swap_button(session: LiveSession, run: CurrentRun, other: CurrentRun) -> None:
    st.button(
        "Swap",
        key="pin-swap",
        icon=":material/swap_horiz:",
        help="Make the pinned run the current one, and this one the pinned one.",
        on_click=noted(pinned.swap),
        args=(session.picked, pinned.parameters_of_both(run, other)),
    )


def run_name(run: CurrentRun) -> str:
    """Return a run's model and its changes, for display."""
    unchanged = run.unchanged
    similarity, attention = unchanged.scope.model.similarity, unchanged.trace.attention
    changes = words.changes(run.spec, similarity, attention).values()
    return ", ".join([run.scope.name, *changes])
