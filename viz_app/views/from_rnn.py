"""From RNN to attention: what each kind of layer reaches, what it costs, and what attention changed in translation."""

from collections.abc import Callable

import streamlit as st

from viz_app import parts
from viz_app.figures import from_rnn_words as say
from viz_app.shown import Shown
from viz_app.views.from_rnn_cost import cost
from viz_app.views.from_rnn_learning import similarities, stages
from viz_app.views.from_rnn_length import length
from viz_app.views.from_rnn_pair import pair
from viz_app.views.from_rnn_reach import reach

SECTIONS: dict[str, Callable[[Shown], None]] = {
    "What reaches what": reach,
    "Parallel and cost": cost,
    "Sentence length": length,
    "Two alignments": pair,
    "Stages, on dates": stages,
    "Similarities": similarities,
}


def from_rnn(shown: Shown) -> None:
    """Draw the page."""
    parts.headline(say.QUESTION, say.ANSWER)
    section = st.segmented_control(
        "Section", list(SECTIONS), default="What reaches what", required=True, key="from-rnn-section", bind="query-params",
        label_visibility="collapsed",
    )
    SECTIONS[section](shown)
