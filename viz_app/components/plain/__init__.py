"""Text of users, files and models in the page's own look, set as text and never as HTML."""

from viz_app.components import register

_mount = register("plain", "plain.js", common="live")


def plain(data: dict, key: str) -> None:
    """Show what `rows` has made."""
    _mount(key=key, data=data)


def rows(look: str, *lines: tuple[str, str]) -> dict:
    """(look, text) lines in a box of a look that plain.css knows: "note", "note bad", "written", "written long",
    "checks", "explained"."""
    return {"look": look, "rows": [list(line) for line in lines]}
