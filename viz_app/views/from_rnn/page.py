"""From RNN to attention: what each kind of layer reaches, what it costs, and what attention changed in translation."""

from collections.abc import Callable

import streamlit as st

from viz_app import ui
from viz_app.session import url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.parameters import Choice
from viz_app.views.from_rnn import text as say
from viz_app.views.from_rnn.cost import cost
from viz_app.views.from_rnn.learning import similarities, stages
from viz_app.views.from_rnn.length import length
from viz_app.views.from_rnn.pair import pair
from viz_app.views.from_rnn.reach import reach
from viz_app.views.from_rnn.three import three

SECTIONS: dict[str, Callable[[CurrentRun], None]] = {
    "Three models": three,
    "What reaches what": reach,
    "Parallel and cost": cost,
    "Sentence length": length,
    "Two alignments": pair,
    "Stages, on dates": stages,
    "Similarities": similarities,
}
OF_A_SOURCE = (
    "Three models",
    "What reaches what",
    "Parallel and cost",
    "Two alignments",
)  # they need an encoder, or two texts
SECTION = Choice("from-rnn-section", "Three models", options=tuple(SECTIONS))


def from_rnn(run: CurrentRun) -> None:
    """Draw the page."""
    ui.headline(say.QUESTION, say.ANSWER)
    section = st.segmented_control(
        "Section",
        list(SECTIONS),
        required=True,
        label_visibility="collapsed",
        **url_state.bound(SECTION, url_state.get(SECTION)),
    )
    if not run.scope.model.translates and section in OF_A_SOURCE:
        ui.run_strip(run.trace, run.terms, run.stale)
        st.markdown(say.NO_SOURCE)
        return
    SECTIONS[section](run)
