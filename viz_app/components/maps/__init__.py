"""Heatmaps side by side over the same two rows of tokens, and bars beside the rows; pointing at a cell shows it in all."""

from viz_app.components import register

_mount = register("maps", "maps.js")


def maps(payload: bytes, key: str) -> None:
    """Show a payload of views.from_rnn.maps."""
    _mount(key=key, data=payload)
