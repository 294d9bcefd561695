"""Task: what is this model for, and what does it answer? A picture for each kind of answer, and what one head read for it."""

from collections.abc import Callable
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from viz_app import ui, words
from viz_app.components import Component
from viz_app.components.catalogue import ANSWERS, CLASSES, GUESSES, ORDER, PAIR, PLAIN, SPAN
from viz_app.components.mounting import show
from viz_app.drawing.notes import first_output
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import facts
from viz_app.session import live
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.task import text
from viz_app.views.task.choices import Choices
from viz_app.views.task.controls import choose, choose_position, choose_run, hide, put_order
from viz_app.views.task.explanation import no_picture
from viz_app.views.task.payloads import has_picture, payloads
from viz_app.views.task.presentations import presentation

# the components of the page in their order, with the handlers of their events
COMPONENTS: dict[Component, dict[str, Callable]] = {
    CLASSES: {"on_choose": choose_run},
    GUESSES: {"on_hide": hide},
    PAIR: {},
    SPAN: {},
    ANSWERS: {"on_choose": choose_position},
    ORDER: {"on_order": put_order, "on_choose": choose_position},
}


def task(run: CurrentRun) -> Callable[[CurrentRun], Pictures] | None:
    """Draw the page; returns how its pictures are made of another run."""
    ui.headline(text.QUESTION, text.purpose(run.terms, first_output(run.trace), run.scope.training))
    if not has_picture(run.trace):
        ui.run_strip(run.trace, run.terms, run.stale)
        with st.container(key="explanation"):
            st.markdown(no_picture(run.trace, first_output(run.trace)))
        return None
    choices, strip = choose(run)
    _lay_out(payloads(run, choices), run, choices, strip)
    return partial(payloads, choices=choices)


def _lay_out(drawn: Pictures, run: CurrentRun, choices: Choices, strip: DeltaGenerator) -> None:
    with strip:
        show(PLAIN, drawn["written"], key="written")
    for component, handlers in COMPONENTS.items():
        if component.name in drawn:
            show(component, drawn[component.name], **handlers)
    left, right = st.columns([1.2, 1], gap="medium")
    output = first_output(run.trace)
    presented = presentation(output)
    with left, st.container(key="explanation"):
        st.markdown(presented.explanation(run.trace, output, run.scope.model.of_two))
        session = live.session()
        with st.container(horizontal=True, gap="small", key="downloads"):
            about = lambda: facts(session.shown.trace)  # noqa: E731
            ui.download(
                presented.table_label,
                lambda: presented.table(session.shown, choices),
                f"{file_name(run.trace, 'task')}.csv",
                "text/csv",
                about,
            )
    with right:
        ui.checks_panel(drawn["checks"], words.training_summary(run.scope.training))
