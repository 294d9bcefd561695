"""Recording of one still in a session of the app: a page at an address, and its clicks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import streamlit as st

from viz_app import ui
from viz_app.components.catalogue import NEXT_LINK, PLAIN
from viz_app.drawing.notes import plain_sentence
from viz_app.navigation import PAGES
from viz_app.notebook.picture import Mounted
from viz_app.session import live, respond, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import LiveSession, Pictures
from viz_app.session.parameters import declared_parameters
from viz_app.static_pages.charts import can_draw, chart_payload
from viz_app.static_pages.contents import STATIC_ANSWERS
from viz_app.static_pages.events import messages, without_model
from viz_app.static_pages.layout import CellLayout, shown_in
from viz_app.static_pages.markdown import as_html, headline_html
from viz_app.static_pages.still import Job, Move, Still, sorted_query
from viz_app.views.frame.one_run import NEXT_QUESTION_KEY, STRIP, OneRun
from viz_app.views.page import NextQuestion, Plot, ShownComponent, View

JOB, RECORDED = "job", "recorded"  # in the session state
CHARTS_ONLY_IN_APP = (
    "Its charts are drawn by the installed app; this edition was made without them."
)


def record_still() -> None:
    """Draw the page of the session's job and keep its still in the session."""
    job: Job = st.session_state[JOB]
    page, session = PAGES[job.place.tab], live.live_session()
    url_state.begin_page(page)
    session.begin()
    session.view, session.scope, session.name = page, job.scope, job.place.checkpoint
    session.chosen = url_state.untyped_choices(job.scope.model.fields)
    run, _ = respond.run_texts(session, *job.texts)
    if run is None:
        raise ValueError(f"{job.place.checkpoint} cannot read its example")
    view = page.views[job.place.section](run)
    if isinstance(view, str):
        st.session_state[RECORDED] = Still("", missing=plain_sentence(view))
    else:
        st.session_state[RECORDED] = _still(job.place.tab, view, session, run)


def _still(tab: str, view: View[Any], session: LiveSession, run: CurrentRun) -> Still:
    page, choices = PAGES[tab], view.choose(run)
    one = OneRun(page, view, choices, session, st.container())
    pictures = one.pictures(run)
    cells = view.layout(run, choices, pictures)
    layout = CellLayout(pictures, as_html(view.text(run, choices)), view.trained(run))
    nodes = layout.whole([key for key in STRIP if key in pictures], cells)
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
    answer = STATIC_ANSWERS.get(tab, page.answer(run))
    return Still(
        parts=parts,
        charts=_charts(layout.plots, pictures, lambda: one.pictures(run)),
        texts={"headline": headline_html(page.question, answer), **layout.texts},
        layout=tuple(nodes),
        moves=tuple(_moves(list(components.values()), pictures)),
        leads_to=(question.page, _address_of(question)),
        query=sorted_query(url_state.publish().query),
    )


def _charts(
    plots: Mapping[str, Plot], pictures: Pictures, draw_again: Callable[[], Pictures]
) -> dict[str, dict[str, Any]]:
    """Return the charts in the light theme, which `pictures` have, and drawn again in the dark."""
    if not plots:
        return {}
    with ui.in_theme("dark"):
        dark = draw_again()
    return {key: chart_payload(plot, pictures[key], dark[key]) for key, plot in plots.items()}


def _moves(components: Sequence[ShownComponent], pictures: dict[str, Any]) -> Iterator[Move]:
    """Yield the address that each message leads to: call its handler, then undo its choice."""
    for cell in components:
        for name, handler in {**cell.choose, **cell.change}.items():
            event = cell.component.events[name]
            for message in messages(cell.component, name, pictures[cell.picture]):
                with url_state.preview_choices():
                    handler(*event.arguments(message))
                    query = sorted_query(url_state.publish().query)
                yield Move(cell.picture, event.trigger, message, query)


def _address_of(question: NextQuestion) -> str:
    """Return the query of the page that answers a question."""
    with url_state.preview_choices():
        for name, value in question.chosen.items():
            url_state.set_value(declared_parameters()[name], value)
        return sorted_query(url_state.publish().query)
