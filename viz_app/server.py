"""The ASGI server: the app, its socket, files, progress and classes, behind three middlewares.

See app.py, session/live.py, session/downloads.py, session/opening_route.py, session/class_route.py,
session/own_data_route.py, session/own_files.py, host_guard.py, response_headers.py and
entry_page.py.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib import import_module

import streamlit as st
from starlette.middleware import Middleware
from streamlit.cli_util import open_browser
from streamlit.web.server.server_util import get_display_address, get_url

from models import CheckpointError
from viz_app import bounds, checkpoints, common_folder
from viz_app.entry_page import EntryPage
from viz_app.host_guard import HostGuard, settings
from viz_app.reference.pages import reference_routes
from viz_app.response_headers import ResponseHeaders
from viz_app.session import (
    class_route,
    downloads,
    live_route,
    opening_route,
    own_data_route,
    own_files,
)


@asynccontextmanager
async def _lifespan(app: st.App) -> AsyncIterator[None]:
    """Set the process limits, begin to open the first model, and open a browser when ready.

    Streamlit itself opens one only for an app without routes.
    """
    bounds.raise_file_limit()
    bounds.raise_head_limit()
    bounds.filter_repeated_lines()
    asyncio.get_running_loop().run_in_executor(None, _open_first)
    if not st.get_option("server.headless"):
        url = get_url(get_display_address(st.get_option("server.address") or "localhost"))
        asyncio.get_running_loop().call_later(0.2, open_browser, url)
    yield
    common_folder.remove_own()  # a signal that ends the server runs no function of atexit


def _open_first() -> None:
    """Import the pages and draw the first of them while a newcomer's browser still loads."""
    navigation = import_module("viz_app.navigation")
    if not checkpoints.module():
        with suppress(CheckpointError):
            navigation.draw_landing_page()


app = st.App(
    "app.py",
    routes=[
        *live_route.socket_routes(),
        *downloads.download_routes(),
        *opening_route.opening_routes(),
        *class_route.class_routes(),
        *own_data_route.own_data_routes(),
        *own_files.own_files_routes(),
        *reference_routes(),
    ],
    middleware=[
        Middleware(ResponseHeaders),
        Middleware(HostGuard, **settings()),
        Middleware(EntryPage),
    ],
    lifespan=_lifespan,
)
