"""The states of a recurrence as signed colours: a row a token, a column a number; framed, the part that is passed on."""

from viz_app.components import register

SCRIPTS = ("../walk/signed.js", "states.js")
_mount = register("states", *SCRIPTS)


def states(payload: bytes, key: str = "states") -> None:
    """Show drawing.states.encoder_states' payload."""
    _mount(key=key, data=payload)
