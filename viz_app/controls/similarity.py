"""The choice of a similarity other than the model's own."""

import streamlit as st

from models.layers.similarity import SIMILARITIES
from viz_app.session import url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import noted_value
from viz_app.session.run_changes import SIMILARITY_CHANGE

_WIDTH = 190  # px
_KEY = "similarity-choice"


def choose_similarity(run: CurrentRun) -> None:
    """Draw the choice, except for an RNN, which has none."""
    own_name = run.unchanged.scope.model.similarity
    if not own_name:
        return
    name = run.spec.model.similarity
    st.session_state[_KEY] = name or own_name

    def keep(name: str) -> None:
        url_state.set_value(SIMILARITY_CHANGE, None if name == own_name else name)

    st.selectbox(
        "Similarity",
        list(SIMILARITIES),
        key=_KEY,
        on_change=noted_value(_KEY, keep),
        width=_WIDTH,
        format_func=lambda name: (
            f"{name} (own)" if name == own_name else f"{name}: {SIMILARITIES[name].formula}"
        ),
        help="How query and key are compared. With another similarity, the weights are used in a way they were not"
        " trained for. Its own parameters (t, M, or W, U and v) are at their initial values.",
    )
    if name:
        st.badge("not trained this way", icon=":material/warning:", color="orange")
