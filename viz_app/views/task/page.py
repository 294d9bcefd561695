"""Task: what is this model for, and what does it answer? What it expects along the text, and what one head read for it."""

from collections.abc import Callable
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from viz_app import ui, words
from viz_app.components.answers import answers
from viz_app.components.plain import plain
from viz_app.drawing.notes import first_output
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import facts
from viz_app.session import live
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.task import files, text
from viz_app.views.task.controls import choose, choose_position
from viz_app.views.task.payloads import Choices, answer, has_picture, payloads


def task(run: CurrentRun) -> Callable[[CurrentRun], Pictures] | None:
    """Draw the page; returns how its pictures are made of another run."""
    ui.headline(text.QUESTION, text.purpose(run.terms, first_output(run.trace), run.scope.training))
    if not has_picture(run.trace):
        ui.written(run.trace, run.terms, run.stale)
        with st.container(key="explanation"):
            st.markdown(text.NO_PICTURE)
        return None
    choices, strip = choose(run)
    _lay_out(payloads(run, choices), run, choices, strip)
    return partial(payloads, choices=choices)


def _lay_out(drawn: Pictures, run: CurrentRun, choices: Choices, strip: DeltaGenerator) -> None:
    with strip:
        plain(drawn["written"], key="written")
    answers(drawn["answers"], choose_position)
    left, right = st.columns([1.2, 1], gap="medium")
    with left, st.container(key="explanation"):
        st.markdown(text.EXPLANATION)
        session = live.session()
        with st.container(horizontal=True, gap="small", key="downloads"):
            about = lambda: facts(answer(session.shown, choices).run.trace)      # noqa: E731
            name = f"{file_name(run.trace, 'task')}.csv"
            ui.download("All positions, CSV", lambda: files.table_csv(answer(session.shown, choices)), name, "text/csv", about)
    with right:
        ui.checks_panel(drawn["checks"], words.trained(run.scope.training))
