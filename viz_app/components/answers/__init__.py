"""What a model expects next at each place of a text: the places to click, one distribution, and what its answer read."""

from collections.abc import Callable

import streamlit as st

from viz_app.components import register

SCRIPTS = ("../stepper/bars.js", "reading.js", "strip.js", "answers.js")
_mount = register("answers", *SCRIPTS, styles=("../stepper/parts.css", "reading.css"))


def answers(payload: bytes, on_choose: Callable[[int], None], key: str = "answers") -> None:
    """Show views.task.next_token.answers' payload; `on_choose(position)` is called when another place is chosen."""

    def chosen() -> None:
        if (pick := st.session_state[key].get("pick")) is not None:
            on_choose(int(pick["position"]))

    _mount(key=key, data=payload, on_pick_change=chosen)
