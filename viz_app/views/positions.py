"""Positions: how does the model know the order? One section of the page at a time."""

from collections.abc import Callable

import streamlit as st

from viz_app import parts
from viz_app.figures import positions_words as say
from viz_app.live import Pictures
from viz_app.shown import Shown
from viz_app.views.positions_live import added, shuffle
from viz_app.views.positions_tables import curves, maps, misprints

SECTIONS: dict[str, Callable[[Shown], Callable[[Shown], Pictures] | None]] = {
    "Shuffle test": shuffle,
    "Curves": curves,
    "Map": maps,
    "Two misprints": misprints,
    "Added or concatenated": added,
}


def positions(shown: Shown) -> Callable[[Shown], Pictures] | None:
    """Draw the page; returns how its pictures are made of another run, if they can be made beside Streamlit."""
    parts.headline(say.QUESTION, say.answer(shown.scope.config))
    section = st.segmented_control(
        "Section", list(SECTIONS), default="Shuffle test", required=True, key="positions-section", bind="query-params",
        label_visibility="collapsed",
    )
    return SECTIONS[section](shown)
