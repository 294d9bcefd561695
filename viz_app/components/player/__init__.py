"""Play and pause beside a slider over steps: one after the other is asked for, each once the one before it is shown."""

from collections.abc import Callable, Sequence

import streamlit as st

from viz_app.components import register

_mount = register("player", "player.js")


def player(steps: Sequence[int], step: int, on_step: Callable[[int], None], key: str) -> None:
    """Show that the slider stands at this one of the steps; `on_step(step)` is called with each that is played."""

    def played() -> None:
        if (asked := st.session_state[key].get("step")) is not None:
            on_step(int(asked))

    _mount(key=key, data={"steps": list(steps), "step": step}, on_step_change=played)
