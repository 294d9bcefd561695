"""Session values that are not in the URL, such as the value of a widget by its key."""

from typing import Any

import streamlit as st


def recall(key: str, default: Any = None) -> Any:
    """Return the value stored under this key."""
    return st.session_state.get(key, default)


def remember(key: str, value: Any) -> None:
    """Store a value under this key; a widget with this key then shows it."""
    st.session_state[key] = value


def forget(key: str) -> None:
    """Remove the value stored under this key."""
    st.session_state.pop(key, None)
