"""Nothing to see: listens to the text boxes, has the pictures of the page made anew at every key (viz_app/session/live.py) and
hands what was typed over to Streamlit, and writes the session's choices into the browser's address (viz_app/session/url_state.py).
"""

from collections.abc import Sequence
from dataclasses import asdict

from viz_app.components import register
from viz_app.session.url_state import Address

_mount = register("live", "boxes.js", "live.js")


def live(
    *,
    token: str,
    path: str,
    is_open: bool,
    pause: int,
    fields: Sequence[str],
    lines: bool,
    address: Address,
) -> None:
    """While `is_open`, ask at `path` in the name of the session with this `token` for the texts in the boxes of these `fields`,
    which Streamlit has after `pause` ms without a key; with `lines` they may hold line breaks. The browser is at this `address`."""
    data = {
        "token": token,
        "path": path,
        "open": is_open,
        "pause": pause,
        "fields": list(fields),
        "lines": lines,
    }
    _mount(key="live", data=data | {"address": asdict(address)})
