"""The walk inside one head: a slider over the stages, vectors as strips of colour, one row a key."""

from collections.abc import Callable

import streamlit as st

from viz_app.components import register

_mount = register("walk", "signed.js", "table.js", "walk.js")


def walk(
    payload: bytes,
    on_choose: Callable[[int, int], None],
    on_stage: Callable[[int], None],
    key: str = "walk",
) -> None:
    """Show views.inside.cell.walk's payload. `on_choose(query, key)` is called when a row is clicked, `on_stage(stage)` then
    and when the slider has come to rest; stepping itself asks nothing of Python."""

    def handle_news() -> None:
        news = st.session_state[key].get("news") or {}
        if "stage" in news:
            on_stage(int(news["stage"]))
        if "key" in news:
            on_choose(int(news["query"]), int(news["key"]))

    _mount(key=key, data=payload, on_news_change=handle_news)
