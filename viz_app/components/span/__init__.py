"""Where an answer begins and ends: a map of all spans, the most probable ones, the answer in its context, and what it read."""

from viz_app.components import register

SCRIPTS = ("../stepper/bars.js", "../answers/reading.js", "map.js", "span.js")
_mount = register("span", *SCRIPTS, styles=("../stepper/parts.css", "../answers/reading.css"))


def span(payload: bytes, key: str = "span") -> None:
    """Show a payload of views.task.span."""
    _mount(key=key, data=payload)
