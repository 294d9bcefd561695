"""What stands at the right of the navigation on every page: a button for the presentation mode, and one that copies the link; and
what the field's words mean, for who points at them."""

from collections.abc import Callable, Sequence

import streamlit as st

from viz_app.components import register

_KEY = "tools"
_mount = register("tools", "link.js", "glossary.js", "tools.js")


def tools(presents: bool, fields: Sequence[str], on_present: Callable[[bool], None]) -> None:
    """Show whether the page `presents`; `on_present(is_on)` is called when the button or the key P changes that. The link has what
    stands in the boxes of these `fields`."""

    def changed() -> None:
        if (is_on := st.session_state[_KEY].get("present")) is not None:
            on_present(bool(is_on))

    _mount(key=_KEY, data={"presents": presents, "fields": list(fields)}, on_present_change=changed)
