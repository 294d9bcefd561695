"""A text box with a length limit, since sessions keep their texts and share the memory."""

from typing import Any

import streamlit as st

from viz_app.controls.drawn import note_text
from viz_app.session import url_state
from viz_app.session.parameters import Text, typed_text_too_long


def text_box(label: str, parameter: Text, value: str, **settings: Any) -> tuple[str, str]:
    """Draw the box; return its text, and a message if the text was cut, else "".

    The widget's own `max_chars` is not used: with it a browser silently ignores a longer text.
    """
    text = st.text_area(label, **settings, **url_state.bound(parameter, value))
    n = url_state.uncut_length(parameter)
    kept = parameter.limited(text)
    note_text(label, kept)
    return kept, f"The text {typed_text_too_long(n)}. The rest was left out." if n else ""
