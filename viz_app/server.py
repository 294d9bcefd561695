"""What is served: the app of app.py, beside it the socket of live.py and the files of downloads.py, behind the checks of door.py and
the headers of response_headers.py."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import streamlit as st
from starlette.middleware import Middleware
from streamlit.cli_util import open_browser
from streamlit.web.server.server_util import get_display_address, get_url

from viz_app import bounds
from viz_app.door import Door, known
from viz_app.response_headers import ResponseHeaders
from viz_app.session import downloads, live


@asynccontextmanager
async def _opened(app: st.App) -> AsyncIterator[None]:
    """Set this process's bounds, and open a browser once the server answers, which Streamlit does by itself only for an app
    without routes."""
    bounds.more_files()
    bounds.no_repeats()
    if not st.get_option("server.headless"):
        url = get_url(get_display_address(st.get_option("server.address") or "localhost"))
        asyncio.get_running_loop().call_later(0.2, open_browser, url)
    yield


app = st.App(
    "app.py",
    routes=[*live.routes(), *downloads.routes()],
    middleware=[Middleware(ResponseHeaders), Middleware(Door, **known())],
    lifespan=_opened,
)
