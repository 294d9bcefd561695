"""Nothing to see: listens to the text boxes and has the pictures of the page made anew at every key (viz_app/session/live.py),
and writes the session's choices into the browser's address (viz_app/session/url_state.py)."""

from collections.abc import Sequence
from dataclasses import asdict

from viz_app.components import register
from viz_app.session.url_state import Address

_mount = register("live", "live.js")


def live(token: str, path: str, is_open: bool, fields: Sequence[str], address: Address) -> None:
    """While `is_open`, ask at `path` in the name of the session with this `token` for the texts in the boxes of these `fields`;
    the browser is at this `address`."""
    _mount(key="live", data={"token": token, "path": path, "open": is_open, "fields": list(fields), "address": asdict(address)})
