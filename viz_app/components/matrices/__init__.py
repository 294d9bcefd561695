"""One head as matrix products, a token a row or a token a column; a click in the scores or in Â chooses a weight."""

from collections.abc import Callable

import streamlit as st

from viz_app.components import register

_mount = register("matrices", "../walk/signed.js", "../walk/table.js", "matrices.js")


def matrices(payload: bytes, on_choose: Callable[[int, int], None], key: str = "matrices") -> None:
    """Show views.inside.matrices.matrices's payload; `on_choose(query, key)` is called on a click in the scores or in Â."""

    def picked() -> None:
        if (pick := st.session_state[key].get("pick")) is not None:
            on_choose(int(pick["query"]), int(pick["key"]))

    _mount(key=key, data=payload, on_pick_change=picked)
