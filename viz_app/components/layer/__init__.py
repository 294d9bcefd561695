"""One token's way through all layers of a stack, and one layer of it in full: vectors, lengths, directions, and what the model
would say behind each part."""

from collections.abc import Callable

import streamlit as st

from viz_app.components import register

_mount = register(
    "layer",
    "../walk/signed.js",
    "../walk/table.js",
    "rows.js",
    "stops.js",
    "vectors.js",
    "layer.js",
)


def layer(
    payload: bytes,
    on_layer: Callable[[str], None],
    on_token: Callable[[int], None],
    key: str = "layer",
) -> None:
    """Show views.layer.payloads.layer's payload. `on_layer(site)` is called when a layer is clicked, `on_token(position)` when a
    token is."""

    def handle_news() -> None:
        news = st.session_state[key].get("news") or {}
        if "site" in news:
            on_layer(str(news["site"]))
        elif "token" in news:
            on_token(int(news["token"]))

    _mount(key=key, data=payload, on_news_change=handle_news)
