"""Numbers by distance as a line, the least and the largest at each as a band round it."""

from viz_app.components import register

_mount = register("by_distance", "by_distance.js")


def by_distance(payload: bytes, key: str) -> None:
    """Show a payload of views.positions.distance_payloads."""
    _mount(key=key, data=payload)
