"""Text of users, files and models in the page's own look, set as text and never as HTML."""

from viz_app.components import register

_mount = register("plain", "plain.js", common="live")


def plain(data: dict, key: str) -> None:
    """Show lines made by viz_app.drawing.notes."""
    _mount(key=key, data=data)
