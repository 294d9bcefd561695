"""Lines of several heads at once, and all heads of their kind in the order of what they measurably do."""

from collections.abc import Callable

import streamlit as st

from viz_app.components import register

_mount = register("several", "../walk/signed.js", "../walk/table.js", "ranking.js", "strands.js", "several.js")


def several(
    payload: bytes, on_head: Callable[[int], None], on_measure: Callable[[str], None], on_query: Callable[[int], None],
    key: str = "several",
) -> None:
    """Show views.inside.several's payload. `on_head(number)` is called when a head is ticked or unticked, `on_measure(name)` when
    the heads are to stand in another order, `on_query(query)` when a token is clicked, −1 to let go."""

    def told() -> None:
        news = st.session_state[key].get("news") or {}
        if "head" in news:
            on_head(int(news["head"]))
        elif "measure" in news:
            on_measure(str(news["measure"]))
        elif "query" in news:
            on_query(int(news["query"]))

    _mount(key=key, data=payload, on_news_change=told)
