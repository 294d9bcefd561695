"""Shared parts of the app's routes: Streamlit's base path, and the session of a request."""

import streamlit as st
from starlette.requests import Request

from viz_app.session import live
from viz_app.session.live import LiveSession


def base_path() -> str:
    """Return the path that the app is served below, "" for none."""
    base = st.get_option("server.baseUrlPath").strip("/")
    return f"/{base}" if base else ""


def under_base(name: str) -> str:
    """Return the URL path of one of the app's own routes."""
    return f"{base_path()}/{name}"


def session_of(request: Request) -> LiveSession | None:
    """Return the session whose token a request carries, None if there is no such session."""
    return live.by_token(request.headers.get("authorization", "").removeprefix("Bearer "))
