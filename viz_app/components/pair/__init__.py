"""What a model says of two texts together: the probability of each class, and how the token that answers divides its attention."""

from viz_app.components import register

SCRIPTS = ("../stepper/bars.js", "../answers/reading.js", "pair.js")
_mount = register("pair", *SCRIPTS, styles=("../stepper/parts.css", "../answers/reading.css"))


def pair(payload: bytes, key: str = "pair") -> None:
    """Show a payload of views.task.pair."""
    _mount(key=key, data=payload)
