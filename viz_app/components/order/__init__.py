"""Tokens in the order in which they are predicted, to be dragged; both masks, what was expected, and what the query stream read."""

from collections.abc import Callable, Sequence

import streamlit as st

from viz_app.components import register

SCRIPTS = ("../stepper/bars.js", "../answers/reading.js", "visibility.js", "order.js")
_mount = register("order", *SCRIPTS, styles=("../stepper/parts.css", "../answers/reading.css"))


def order(
    payload: bytes,
    on_order: Callable[[Sequence[int]], None],
    on_choose: Callable[[int], None],
    key: str = "order",
) -> None:
    """Show views.task.in_order's payload; `on_order(positions)` is called with the whole new order, `on_choose(position)` with the
    position whose answer is asked for."""

    def news() -> None:
        if (pick := st.session_state[key].get("pick")) is None:
            return
        if "order" in pick:
            on_order([int(position) for position in pick["order"]])
        else:
            on_choose(int(pick["position"]))

    _mount(key=key, data=payload, on_pick_change=news)
