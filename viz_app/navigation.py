"""The frame of the app: page settings, navigation, and a fragment with the input bar and the page.

The fragment keeps edits cheap: a keystroke in the bar reruns only the fragment.
"""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from models import InputError
from viz_app import bounds, checkpoints, ui, words
from viz_app.components.catalogue import LIVE, TOOLS
from viz_app.components.mounting import show
from viz_app.controls import lesson_panel
from viz_app.controls.pin_bar import toggle_pin
from viz_app.input_bar.examples import holds_lines, readable_examples
from viz_app.input_bar.form import input_bar
from viz_app.session import cache, live, live_route, pinned, process, training, url_state
from viz_app.session.classes import ClassStatus
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.session.lanes import are_long
from viz_app.session.live import LiveSession, noted
from viz_app.session.parameters import MAX_TEXT_LENGTH
from viz_app.session.respond import text_responder
from viz_app.views.attention.page import ATTENTION_PAGE
from viz_app.views.attention.payloads import AttentionChoices, attention_payloads
from viz_app.views.compare.page import COMPARE_PAGE
from viz_app.views.decoding.page import DECODING_PAGE
from viz_app.views.frame import Draw, show_page
from viz_app.views.from_rnn.page import FROM_RNN_PAGE
from viz_app.views.inside.page import INSIDE_PAGE
from viz_app.views.interventions.page import INTERVENTIONS_PAGE
from viz_app.views.layer.page import LAYER_PAGE
from viz_app.views.lessons.page import LESSONS_PAGE
from viz_app.views.masks.page import MASKS_PAGE
from viz_app.views.models.page import MODELS_PAGE
from viz_app.views.page import Page
from viz_app.views.positions.page import POSITIONS_PAGE
from viz_app.views.task.page import TASK_PAGE
from viz_app.views.train.page import TRAIN_PAGE

NEWCOMER = "New here? Lesson 1"
INVALID = "Part of this link could not be restored: {}. Showing the rest."
NOT_RELOADABLE = (
    "The text is lost at a reload: its link has {:,} characters. At most {:,} can be opened."
)
LANDING_PAGE = "attention"  # the page at "/"
WATCHES = "train"  # the page to which `attnscope watch` leads
# URL path → page
PAGES: dict[str, Page] = {
    "lessons": LESSONS_PAGE,
    "train": TRAIN_PAGE,
    "attention": ATTENTION_PAGE,
    "task": TASK_PAGE,
    "inside": INSIDE_PAGE,
    "layer": LAYER_PAGE,
    "positions": POSITIONS_PAGE,
    "masks": MASKS_PAGE,
    "interventions": INTERVENTIONS_PAGE,
    "decoding": DECODING_PAGE,
    "compare": COMPARE_PAGE,
    "from-rnn": FROM_RNN_PAGE,
    "models": MODELS_PAGE,
}
# first page of a group → the label before its tab
GROUPS = {"attention": "See", "inside": "Understand", "compare": ""}


def _labels() -> str:
    """Return the style rules of the group labels, in the navigation and in a phone's page list."""
    return "".join(
        f'[data-testid="stTopNav"] > :nth-child({i})::before, '
        f'[data-testid="stSidebarNavItems"] > :nth-child({i})::before {{ content: "{GROUPS[address]}"; }}'
        for i, address in enumerate(PAGES, 1)
        if address in GROUPS
    )


def draw_landing_page() -> None:
    """Draw what a newcomer sees first, so that its model, its run and its findings are cached.

    Raises:
        CheckpointError: the model cannot be opened.
    """
    process.prepare()
    scope = cache.scope(checkpoints.LANDING_CHECKPOINT)
    texts = readable_examples(scope)[0]
    boxes = texts + ("",) * (len(scope.model.text_fields) - len(texts))
    run = CurrentRun(scope, cache.trace(scope, boxes))
    attention_payloads(run, AttentionChoices(Focus()))


def run_app() -> None:
    """Run the app once."""
    process.prepare()
    st.set_page_config(
        page_title="Attnscope", page_icon="👁", layout="wide", initial_sidebar_state="collapsed"
    )
    st.html(f"<style>{_labels()}</style>{words.glossary_html()}")
    pages = {
        address: st.Page(
            lambda: None,
            title=page.title,
            url_path=None if address == LANDING_PAGE else address,
            default=address == LANDING_PAGE,
        )
        for address, page in PAGES.items()
    }
    # Streamlit serves the default page only at "/"; serve it under its name, too
    title = PAGES[LANDING_PAGE].title
    landing_page = st.Page(lambda: None, title=title, url_path=LANDING_PAGE, visibility="hidden")
    chosen = st.navigation([*pages.values(), landing_page], position="top")
    st.set_page_config(page_title=f"{chosen.title} · Attnscope")
    _page(next((one for one, page in pages.items() if page is chosen), LANDING_PAGE), pages)
    process.freeze_garbage()


@st.fragment
def _page(address: str, pages: dict[str, Any]) -> None:
    """Draw the page at this address; `pages` holds Streamlit's pages by address."""
    page, session = PAGES[address], live.live_session()
    session.actions.carry_out()
    target, session.leaves_for = session.leaves_for, ""
    if training.opens_here(address != LANDING_PAGE or not url_state.is_plain()):
        target = WATCHES
    if target not in ("", address):
        url_state.leave_for(pages[target])
    url_state.begin_page(page)
    status = lesson_panel.follow_class(session)
    target, session.leaves_for = session.leaves_for, ""
    if target not in ("", address):
        url_state.leave_for(pages[target])
    session.begin()
    if session.view is not page:
        session.view, session.answer = page, None
    current = input_bar(page.opens_on)
    note_room = st.container()
    if session.member.note:
        ui.show_note(note_room, session.member.note, key="class")
        session.member.note = ""
    if current is None:
        ui.show_placeholder(session.opening is not None)
    else:
        pictures = _with_lesson(address, session, current, status)
        session.answer = (
            text_responder(session, pictures)
            if pictures and session.scope is current.scope
            else None
        )
    text_fields = session.scope.model.text_fields if session.scope else ()
    fields = [url_state.parameter_of(field).name for field in text_fields]
    _show_tools(session, fields)
    _listen(session, fields, _publish_address(session, note_room))
    if session.run and are_long(session.run.trace.fields.values()):
        process.release_memory_soon()


def _publish_address(session: LiveSession, note_room: DeltaGenerator) -> url_state.Address:
    """Return the page's address; note what of the link is invalid, or that it is too long."""
    if messages := url_state.invalid_messages():
        ui.show_note(note_room, INVALID.format("; ".join(messages)), bad=True, key="address")
    address = url_state.postpone() if session.opening else url_state.publish()
    if (n := len(address.query)) > bounds.MAX_ADDRESS:
        sentence = NOT_RELOADABLE.format(n, bounds.MAX_ADDRESS)
        ui.show_note(note_room, sentence, bad=True, key="long-address")
    return address


def _show_tools(session: LiveSession, fields: Sequence[str]) -> None:
    """Draw what every page offers: to pin its run, to present it, to copy its link."""
    tools = {
        "presents": url_state.get(ui.PRESENT),
        "fields": fields,
        "pinned": bool(pinned.checkpoint()),
        "pins": session.run is not None,
        "size": session.window,
        "longest": bounds.MAX_ADDRESS,
    }
    show(
        TOOLS,
        tools,
        on_present=partial(url_state.set_value, ui.PRESENT),
        on_pin=partial(toggle_pin, session),
        on_window=session.resize,
    )


def _listen(session: LiveSession, fields: Sequence[str], address: url_state.Address) -> None:
    """Have the browser show the address, and ask for pictures while these fields are typed in."""
    listening = {
        "token": session.token,
        "path": live_route.socket_path(),
        "open": session.is_open,
        "pause": session.pause,
        "longest": MAX_TEXT_LENGTH,
        "fields": fields,
        "lines": session.scope is not None and holds_lines(session.scope),
        "address": asdict(address),
    }
    show(LIVE, listening)


def _with_lesson(
    address: str, session: LiveSession, run: CurrentRun, status: ClassStatus | None
) -> Draw | None:
    """Draw the page, beside the step of the open lesson and its class if there are any."""
    page, lesson = PAGES[address], lesson_panel.open_lesson(status)
    if lesson is None:
        if address == LANDING_PAGE and (first := lesson_panel.first()):
            with st.container(key="first-lesson"):
                st.button(
                    NEWCOMER,
                    type="tertiary",
                    on_click=noted(lesson_panel.begin_lesson),
                    args=(first,),
                )
        return _pictures(page, session, run)
    beside, place = st.columns((1, 3), gap="medium")
    with place:
        pictures = _pictures(page, session, run)
    with beside, st.container(key="lesson-room"):
        of_lesson = lesson_panel.draw_lesson(*lesson, address, session, session.change(run), status)
    return pictures and (lambda other: pictures(other) | of_lesson(other))


def _pictures(page: Page, session: LiveSession, run: CurrentRun) -> Draw | None:
    """Draw the page; show an error if the model cannot run what only this page needs."""
    try:
        return show_page(page, session, run)
    except InputError as error:
        ui.show_note(st.container(), checkpoints.error_message(error), bad=True, key="failed")
        return None
