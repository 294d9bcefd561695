"""One head twice: a heatmap with exact weights, and lines from token to token. Hover and lock are linked between them."""

from collections.abc import Callable

import streamlit as st

from viz_app.components import register

SCRIPTS = ("heatmap.js", "lines.js", "head.js")
_mount = register("head", *SCRIPTS)


def head(payload: bytes, on_lock: Callable[[str], None], key: str = "head") -> None:
    """Show drawing.head.head's payload; `on_lock("q3" | "k0" | "")` is called when a token is locked or let go."""

    def locked() -> None:
        if (lock := st.session_state[key].get("lock")) is not None:
            on_lock(str(lock["token"]))

    _mount(key=key, data=payload, on_lock_change=locked)
