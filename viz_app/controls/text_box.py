"""The box of a text whose length has a limit: a session keeps what is typed, and many sessions share the memory."""

from typing import Any

import streamlit as st

from viz_app.session import url_state
from viz_app.session.parameters import Text, too_long


def text_box(label: str, parameter: Text, value: str, **settings: Any) -> tuple[str, str]:
    """Draw the box; return its text, and why that is only the beginning of what was put in, or "".

    The limit is not the widget's `max_chars`, with which a browser ignores a longer text without a word."""
    text = st.text_area(label, **settings, **url_state.bound(parameter, value))
    n = url_state.cut(parameter)
    return parameter.limited(text), f"The text {too_long(n)}. The rest was left out." if n else ""
