"""What several models write for one text, side by side, what differs marked; under them the one vector that a model without
attention has to write from, and how much of it each token can change."""

from viz_app.components import register

SCRIPTS = ("../walk/signed.js", "../stepper/vectors.js", "versions.js")
_mount = register("versions", *SCRIPTS, styles=("../stepper/parts.css",))


def versions(payload: bytes, key: str = "versions") -> None:
    """Show views.from_rnn.versions.versions' payload."""
    _mount(key=key, data=payload)
