"""Nothing to see: listens to the text boxes and has the pictures of the page made anew at every key (viz_app/session/live.py)."""

from viz_app.components import register

_mount = register("live", "live.js")


def live(token: str, path: str, is_open: bool) -> None:
    """While `is_open`, ask at `path` in the name of the session with this `token`."""
    _mount(key="live", data={"token": token, "path": path, "open": is_open})
