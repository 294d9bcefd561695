"""The sum of the heads: what each adds to the residual stream at one token, its length and its direction."""

from collections.abc import Callable

import streamlit as st

from viz_app.components import register

_mount = register("heads", "../walk/signed.js", "../walk/table.js", "heads.js")


def heads(payload: bytes, on_pick: Callable[[int], None], key: str = "heads") -> None:
    """Show views.inside.cell.heads's payload; `on_pick(head)` is called when a row is clicked."""

    def picked() -> None:
        if (pick := st.session_state[key].get("pick")) is not None:
            on_pick(int(pick["head"]))

    _mount(key=key, data=payload, on_pick_change=picked)
