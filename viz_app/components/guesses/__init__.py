"""A row of tokens to hide by a click, what a model expects in the place of each [MASK], and what that place read."""

from collections.abc import Callable, Sequence

import streamlit as st

from viz_app.components import register

SCRIPTS = ("../stepper/bars.js", "../answers/reading.js", "guesses.js")
_mount = register("guesses", *SCRIPTS, styles=("../stepper/parts.css", "../answers/reading.css"))


def guesses(payload: bytes, on_hide: Callable[[Sequence[int]], None], key: str = "guesses") -> None:
    """Show views.task.masked's payload; `on_hide(positions)` is called with all hidden places when one is hidden or shown."""

    def chosen() -> None:
        if (pick := st.session_state[key].get("pick")) is not None:
            on_hide([int(position) for position in pick["hidden"]])

    _mount(key=key, data=payload, on_pick_change=chosen)
