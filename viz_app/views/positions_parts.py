"""Small pieces that the parts of the Positions page share."""

from collections.abc import Callable

import streamlit as st


def camera(name: str) -> dict:
    """Settings of a plotly picture: its camera saves a drawing under this name."""
    return {"toImageButtonOptions": {"format": "svg", "filename": name}, "displaylogo": False}


def file(label: str, make: Callable[[], str | bytes], name: str, mime: str = "application/octet-stream") -> None:
    """A download whose file is made when it is asked for."""
    st.download_button(label, make, name, mime, key=f"download {label}", on_click="ignore", icon=":material/download:")
