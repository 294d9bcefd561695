"""The shuffle test as a drawing: the tokens change places, their vectors move."""

from viz_app.components import register

_mount = register("shuffle", "shuffle.js")


def shuffle(payload: bytes, key: str) -> None:
    """Show a payload of views.positions.shuffle."""
    _mount(key=key, data=payload)
