"""Positions: how does the model know the order? One section of the page at a time."""

from collections.abc import Callable

import streamlit as st

from viz_app import ui
from viz_app.session import url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.session.parameters import Choice
from viz_app.views.positions import text as say
from viz_app.views.positions.adding import added
from viz_app.views.positions.rotation import distances, rotation
from viz_app.views.positions.shuffle_test import shuffle
from viz_app.views.positions.tables import curves, maps, misprints

SECTIONS: dict[str, Callable[[CurrentRun], Callable[[CurrentRun], Pictures] | None]] = {
    "Shuffle test": shuffle,
    "Curves": curves,
    "Map": maps,
    "Two misprints": misprints,
    "Added or concatenated": added,
    "Rotation": rotation,
    "Score by distance": distances,
}
SECTION = Choice("positions-section", "Shuffle test", options=tuple(SECTIONS))


def positions(run: CurrentRun) -> Callable[[CurrentRun], Pictures] | None:
    """Draw the page; returns how its pictures are made of another run, if they can be made beside Streamlit."""
    ui.headline(say.QUESTION, say.answer(run.scope.model))
    section = st.segmented_control(
        "Section",
        list(SECTIONS),
        required=True,
        label_visibility="collapsed",
        **url_state.bound(SECTION, url_state.get(SECTION)),
    )
    return SECTIONS[section](run)
