"""A card for each model, grouped: what it is, its masks, how good it is, and a link that opens it."""

from viz_app.components import register

_mount = register("cards", "cards.js")


def cards(payload: bytes, key: str = "cards") -> None:
    """Show a payload of views.models.payloads."""
    _mount(key=key, data=payload)
