"""All heads at a glance on canvases, one block a kind of attention; a click or the arrow keys choose a head."""

from collections.abc import Callable

import streamlit as st

from viz_app.components import register

SCRIPTS = ("grid.js", "overview.js")
_mount = register("overview", *SCRIPTS)


def overview(payload: bytes, on_pick: Callable[[str, int], None], key: str = "overview") -> None:
    """Show drawing.overview.overview's payload; `on_pick(site name, head)` is called when a head is chosen."""

    def picked() -> None:
        if (pick := st.session_state[key].get("pick")) is not None:
            on_pick(str(pick["site"]), int(pick["head"]))

    _mount(key=key, data=payload, on_pick_change=picked)
