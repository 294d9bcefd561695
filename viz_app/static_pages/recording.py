"""Recording of one still in a session of the app: a page at an address, and its clicks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode

import streamlit as st

from viz_app import checkpoints, ui
from viz_app.checkpoints import only_shipped
from viz_app.components.catalogue import NEXT_LINK, PLAIN
from viz_app.controls.change_bar import show_changes
from viz_app.controls.drawn import DrawnChoice, DrawnControls, drawn_controls
from viz_app.controls.pin_bar import open_pinned, run_name
from viz_app.drawing.notes import plain_sentence
from viz_app.navigation import PAGES
from viz_app.notebook.picture import Mounted
from viz_app.session import cache, live, pinned, respond, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import chosen_focus
from viz_app.session.live import LiveSession, Pictures
from viz_app.session.parameters import declared_parameters
from viz_app.session.pinned import PIN_PREFIX
from viz_app.static_pages.charts import can_draw, chart_payload
from viz_app.static_pages.contents import (
    CHOICES_OF_OWN,
    CONTROLS_SHOWN,
    ONLY_IN_APP,
    STATIC_ANSWERS,
    StaticPage,
)
from viz_app.static_pages.events import messages, without_model
from viz_app.static_pages.layout import CellLayout, shown_in
from viz_app.static_pages.markdown import as_html, headline_html
from viz_app.static_pages.still import Job, Move, Still, sorted_query
from viz_app.views.compare.offers import ANOTHER_INPUT_KEY, HEAD_OFF_KEY, offers
from viz_app.views.frame.one_run import NEXT_QUESTION_KEY, STRIP, OneRun
from viz_app.views.page import NextQuestion, Plot, ShownComponent, View

JOB, RECORDED, READY_PAIRS = "job", "recorded", "ready pairs"  # in the session state
OWN_HEADS = "Its own heads"  # compared with each other
CHARTS_ONLY_IN_APP = (
    "Its charts are drawn by the installed app; this edition was made without them."
)


def record_still() -> None:
    """Draw the page of the session's job and keep its still in the session."""
    job: Job = st.session_state[JOB]
    page = PAGES[job.place.tab]
    with only_shipped():
        session, original = _begin(job)
        if pinned_name := pinned.checkpoint():
            cache.scope(checkpoints.folder(pinned_name))  # so that the page need not wait for it
        run = show_changes(session, original, is_changed=page.shows_changes)
        view = page.views[job.place.section](run)
        if why := ONLY_IN_APP.get((job.place.tab, job.place.section)):
            still = Still("", missing=why)
        elif isinstance(view, str):
            still = Still("", missing=plain_sentence(view))
        else:
            still = _still(job.place, view, session, run)
    st.session_state[RECORDED] = still


def list_pairs() -> None:
    """Keep in the session the ready comparisons of the job's run, and their addresses.

    They are its own heads, and what the page Compare offers to pin. An address begins with the
    heads that differ most, whichever is chosen now. A text to type is left out, and a head that is
    off, which the page Interventions shows.
    """
    with only_shipped():
        _, run = _begin(st.session_state[JOB])
        site, focus = chosen_focus(run.trace)
        has_several_heads = sum(one.n_heads for one in run.trace.attention.values()) > 1
        pairs = {OWN_HEADS: ""} if has_several_heads else {}
        for offer in offers(run, site.name, focus.head):
            if offer.key not in (ANOTHER_INPUT_KEY, HEAD_OFF_KEY):
                with url_state.preview_choices():
                    offer.action()
                    query = parse_qsl(url_state.publish().query)
                pinned_query = [pair for pair in query if pair[0].startswith(PIN_PREFIX)]
                pairs[offer.label] = sorted_query(urlencode(pinned_query))
    st.session_state[READY_PAIRS] = pairs


def _begin(job: Job) -> tuple[LiveSession, CurrentRun]:
    """Begin a page of the job's model, and run it on the texts.

    Raises:
        ValueError: the model cannot read them.
    """
    page, session = PAGES[job.place.tab], live.live_session()
    url_state.begin_page(page)
    session.begin()
    session.view, session.scope = page, job.scope
    session.name = session.picked = job.place.checkpoint
    session.chosen = url_state.untyped_choices(job.scope.model.fields)
    run, _ = respond.run_texts(session, *job.texts)
    if run is None:
        raise ValueError(f"{job.place.checkpoint} cannot read its example")
    return session, run


def _still(place: StaticPage, view: View[Any], session: LiveSession, run: CurrentRun) -> Still:
    page = PAGES[place.tab]
    with drawn_controls() as drawn:
        choices = view.choose(run)
    controls = drawn if place.tab in CONTROLS_SHOWN else DrawnControls()
    one = OneRun(page, view, choices, session, st.container())
    pictures = one.pictures(run)
    cells = view.layout(run, choices, pictures)
    layout = CellLayout(pictures, as_html(view.text(run, choices)), view.trained(run))
    above = [key for key in STRIP if key in pictures]
    about = _runs(session, run) | controls.texts
    nodes = layout.whole(about, [one.key for one in controls.choices], above, cells)
    if not all(can_draw(pictures[key]) for key in layout.plots):
        return Still("", missing=CHARTS_ONLY_IN_APP)
    components = {cell.picture: cell for cell in shown_in(cells) if cell.picture in pictures}
    parts = {
        key: Mounted(cell.component, without_model(cell.component, pictures[key]))
        for key, cell in components.items()
    }
    parts |= {key: Mounted(PLAIN, picture) for key, picture in layout.plain.items()}
    parts[NEXT_QUESTION_KEY] = Mounted(NEXT_LINK, pictures[NEXT_QUESTION_KEY])
    question = page.leads_to(run, choices)
    answer = STATIC_ANSWERS.get((place.tab, place.section), page.answer(run))
    return Still(
        parts=parts,
        charts=_charts(layout.plots, pictures, lambda: one.pictures(run)),
        choices={one.key: _choice(one) for one in controls.choices},
        texts={"headline": headline_html(page.question, answer), **layout.texts},
        layout=tuple(nodes),
        moves=(*_options(controls.choices), *_moves(list(components.values()), pictures)),
        leads_to=(question.page, _address_of(question, run)),
        is_changed=run is not run.unchanged,
        query=sorted_query(url_state.publish().query),
    )


def _runs(session: LiveSession, run: CurrentRun) -> dict[str, str]:
    """Name the pinned run if there is one, and this run if it is changed or compared."""
    _, other = open_pinned(session, run)
    pinned_run = {"Pinned run": run_name(other)} if other else {}
    is_named = other is not None or run is not run.unchanged
    return ({"This run": run_name(run)} if is_named else {}) | pinned_run


def _choice(choice: DrawnChoice) -> dict[str, Any]:
    return {
        "label": choice.label,
        "help": choice.help,
        "names": choice.names,
        "chosen": choice.chosen,
    }


def _charts(
    plots: Mapping[str, Plot], pictures: Pictures, draw_again: Callable[[], Pictures]
) -> dict[str, dict[str, Any]]:
    """Return the charts in the light theme, which `pictures` have, and drawn again in the dark."""
    if not plots:
        return {}
    with ui.in_theme("dark"):
        dark = draw_again()
    return {key: chart_payload(plot, pictures[key], dark[key]) for key, plot in plots.items()}


def _options(choices: Sequence[DrawnChoice]) -> Iterator[Move]:
    """Yield the address that each option leads to, which is not chosen."""
    for choice in choices:
        for i in range(len(choice.names)):
            if i != choice.chosen:
                with url_state.preview_choices():
                    choice.choose(i)
                    query = sorted_query(url_state.publish().query)
                yield Move(choice.key, "option", {"option": i}, query)


def _moves(components: Sequence[ShownComponent], pictures: dict[str, Any]) -> Iterator[Move]:
    """Yield the address that each message leads to: call its handler, then undo its choice."""
    for cell in components:
        for name, handler in {**cell.choose, **cell.change}.items():
            event = cell.component.events[name]
            for message in messages(cell.component, name, pictures[cell.picture]):
                with url_state.preview_choices():
                    handler(*event.arguments(message))
                    query = sorted_query(url_state.publish().query)
                is_change = name in cell.change
                yield Move(cell.picture, event.trigger, message, query, is_change)


def _address_of(question: NextQuestion, run: CurrentRun) -> str:
    """Return the query of the page that answers a question about a run; "" for its first view."""
    is_same = run is run.unchanged or not PAGES[question.page].shows_changes
    if question.page in CHOICES_OF_OWN and is_same:
        return ""
    with url_state.preview_choices():
        for name, value in question.chosen.items():
            url_state.set_value(declared_parameters()[name], value)
        return sorted_query(url_state.publish().query)
