"""The choice of another similarity than the model's own."""

import streamlit as st

from models.layers.similarity import SIMILARITIES
from viz_app import words
from viz_app.components.catalogue import PLAIN
from viz_app.components.mounting import show
from viz_app.controls.similarity_text import NOTE
from viz_app.drawing.notes import small_print
from viz_app.session import url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice

SIMILARITY = Choice("similarity")  # none is the model's own
_WIDTH = 190  # px
_KEY = "similarity-choice"


def other_similarity(run: CurrentRun) -> str:
    """Return the similarity chosen instead of the model's own; empty for its own, and for a model whose
    similarity cannot be exchanged."""
    chosen = url_state.get(SIMILARITY)
    if (
        not run.scope.model.similarity
        or chosen not in SIMILARITIES
        or chosen == run.scope.model.similarity
    ):
        return ""
    return chosen


def choose_similarity(run: CurrentRun) -> str:
    """Draw the choice and return `other_similarity`; an RNN has none to choose."""
    if not run.scope.model.similarity:
        return ""
    own = run.scope.model.similarity
    st.session_state[_KEY] = other_similarity(run) or own

    def keep() -> None:
        name = st.session_state[_KEY]
        url_state.keep(SIMILARITY, None if name == own else name)

    st.selectbox(
        "Similarity",
        list(SIMILARITIES),
        key=_KEY,
        on_change=keep,
        width=_WIDTH,
        format_func=lambda name: (
            f"{name} (own)" if name == own else f"{name}: {SIMILARITIES[name].formula}"
        ),
        help="How query and key are compared. Under any other than the model's own, the weights are used in a way they were not "
        "trained for; what that similarity has to learn besides (t, M, or W, U and v) starts as in a new model.",
    )
    name = other_similarity(run)
    if name:
        st.badge("not trained this way", icon=":material/warning:", color="orange")
    return name


def note_similarity(drawn: Pictures) -> None:
    """Draw the note on the swapped similarity, if the pictures have one."""
    if NOTE in drawn:
        show(PLAIN, drawn[NOTE], key=NOTE)


def drop_similarity(run: CurrentRun) -> None:
    """Say that this page shows the model with its own similarity, and offer to reset another."""
    if name := other_similarity(run):
        with st.container(horizontal=True, gap="small", vertical_alignment="center", key="dropped"):
            show(
                PLAIN,
                small_print(words.similarity_dropped(name, run.scope.model.similarity)),
                key="note dropped",
            )
            st.button("Let it go", key="drop", on_click=url_state.keep, args=(SIMILARITY, None))
