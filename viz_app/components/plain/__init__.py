"""Text of users, files and models in the page's own look, set as text and never as HTML."""

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

_HERE = Path(__file__).parent
_mount = st.components.v2.component(
    "attnscope_plain",
    **{part: (_HERE / f"plain.{part}").read_text("utf-8") for part in ("html", "css", "js")},
)


def plain(look: str, rows: Sequence[tuple[str, str]], key: str) -> None:
    """Show (look, text) rows in a box of a look that plain.css knows: "note", "note bad", "written" or "written long"."""
    _mount(key=key, data={"look": look, "rows": [list(row) for row in rows]})
