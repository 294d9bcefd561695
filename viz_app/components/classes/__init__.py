"""What runs that differ in λ alone say of one text: the probability of each class, side by side; a click opens another run."""

from collections.abc import Callable

import streamlit as st

from viz_app.components import register

SCRIPTS = ("../stepper/bars.js", "classes.js")
_mount = register("classes", *SCRIPTS, styles=("../stepper/parts.css",))


def classes(payload: bytes, on_choose: Callable[[str], None], key: str = "classes") -> None:
    """Show views.task.classes.classes' payload; `on_choose(name)` is called when another run's checkpoint is chosen."""

    def chosen() -> None:
        if (pick := st.session_state[key].get("pick")) is not None:
            on_choose(str(pick["name"]))

    _mount(key=key, data=payload, on_pick_change=chosen)
