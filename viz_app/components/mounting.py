"""Components on a page that Streamlit draws."""

from collections.abc import Callable
from functools import cache
from typing import Any

import streamlit as st

from viz_app.components import Component, stamped
from viz_app.session.live import session


def mount(component: Component, *, key: str, data: bytes | dict, **on: Any) -> Any:
    """Show the component on the page; what it shows is stamped with the session's edition."""
    return _shown(component)(key=key, data=stamped(data, key, session().edition), **on)


def news(key: str, name: str) -> Any:
    """What the component of this key has sent under a name, None if nothing."""
    return st.session_state[key].get(name)


@cache
def _shown(component: Component) -> Callable[..., Any]:
    """Registered once, the first time it is shown."""
    return st.components.v2.component(f"attnscope_{component.name}", **component.files)
