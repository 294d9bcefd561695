"""Two rows of tokens to click: who reads (query) and what is read (key), shaded by the chosen query's weights."""

from collections.abc import Callable

import streamlit as st

from viz_app.components import register

_mount = register("choice", "choice.js")


def choice(payload: bytes, on_choose: Callable[[int, int], None], key: str = "choice") -> None:
    """Show views.inside.cell.token_choice's payload; `on_choose(query, key)` is called on a click, key −1 for the strongest."""

    def picked() -> None:
        if (pick := st.session_state[key].get("pick")) is not None:
            on_choose(int(pick["query"]), int(pick["key"]))

    _mount(key=key, data=payload, on_pick_change=picked)
