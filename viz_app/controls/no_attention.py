"""What the pages about attention show of a model that has none: the states its encoder passes through."""

from collections.abc import Callable
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from models.trace import Trace
from viz_app import ui, words
from viz_app.components.catalogue import PLAIN, STATES
from viz_app.components.mounting import show
from viz_app.controls.step_payloads import without_attention
from viz_app.drawing import states
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import facts
from viz_app.session import live
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.session.run_variants import at_step


def no_attention(
    run: CurrentRun, written: DeltaGenerator, step: int | None = None
) -> Callable[[CurrentRun], Pictures]:
    """The encoder's states instead of attention, why there is none, and the check that only h_m passes; in `written`, what was
    read and written. `step` is one of the training, None for the last. Returns how its pictures are made of another run."""
    drawn, session = without_attention(run, step), live.session()
    with written:
        show(PLAIN, drawn["written"], key="written")
    name = file_name(at_step(run, step).trace, "encoder-states")
    show(STATES, drawn["states"])
    explained, checked = st.columns([1.4, 1], gap="medium")

    def now() -> Trace:
        return at_step(session.run, step).trace

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
        ui.checks_panel(drawn["checks"], words.training_summary(at_step(run, step).scope.training))
    return partial(without_attention, step=step)
