"""What the pages about attention show of a model that has none: the states its encoder passes through."""

from collections.abc import Callable

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from models.trace import Trace
from viz_app import ui
from viz_app.components.catalogue import PLAIN, STATES
from viz_app.components.mounting import show
from viz_app.controls import similarity_text
from viz_app.controls.step_payloads import without_attention
from viz_app.drawing import states
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import facts
from viz_app.session import live
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures


def no_attention(run: CurrentRun, written: DeltaGenerator) -> Callable[[CurrentRun], Pictures]:
    """Draw the encoder's states instead of attention, the reason, and the check that only h_m passes; the line that was read and
    written goes into `written`. Return how the pictures are made of another run."""
    drawn, session = without_attention(run), live.session()
    with written:
        show(PLAIN, drawn["written"], key="written")
    name = file_name(run.trace, "encoder-states")
    show(STATES, drawn["states"])
    explained, checked = st.columns([1.4, 1], gap="medium")

    def now() -> Trace:
        return session.shown.trace

    with explained, st.container(key="explanation"):
        st.markdown(states.explanation(run.scope.config, run.terms))
        with st.container(horizontal=True, gap="small", key="downloads"):
            ui.download(
                "The states, CSV",
                lambda: states.states_csv(now()),
                f"{name}.csv",
                "text/csv",
                lambda: facts(now()),
            )
            ui.download(
                "All states, npz",
                lambda: states.states_npz(now()),
                f"{name}.npz",
                about=lambda: facts(now()),
            )
    with checked:
        ui.checks_panel(drawn["checks"], similarity_text.trained(run))
    return without_attention
