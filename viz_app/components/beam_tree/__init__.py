"""The beam as a tree; a click on a node shows its attention."""

from collections.abc import Callable

import streamlit as st

from viz_app.components import register

_mount = register(
    "beam_tree",
    "../stepper/chips.js",
    "../stepper/bars.js",
    "tree.js",
    "beam_tree.js",
    styles=("../stepper/parts.css",),
)


def beam_tree(payload: bytes, on_node: Callable[[int, int], None], key: str = "beam_tree") -> None:
    """Show views.decoding.beam.beam_tree's payload; `on_node(step, rank)` when a node is clicked, both from 0."""

    def picked() -> None:
        if (node := st.session_state[key].get("node")) is not None:
            on_node(int(node["step"]), int(node["rank"]))

    _mount(key=key, data=payload, on_node_change=picked)
