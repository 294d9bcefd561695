"""Downloads that are computed while they are sent, over a route of their own.

The files of a long text are too large to keep in memory for every session; Streamlit's download
button would hold the whole file until the session ends.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import quote
from weakref import WeakValueDictionary

import streamlit as st
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from viz_app import workers
from viz_app.session import live

AT_ONCE = 2  # simultaneous downloads of one session; each is computed while it is sent
BUSY = f"{AT_ONCE} files are being sent to you: take this one when they are there."
GONE = "This file is no longer offered: go back to its page and take it there."
_KEY = "downloads"
_running: Counter[str] = Counter()  # downloads in progress, by session token


@dataclass(eq=False)
class _File:
    """A file on offer: its session's token, its name, and a function that generates its pieces."""

    owner: str
    name: str
    pieces: Callable[[], Iterator[bytes]]


# by token; each session keeps its own files alive
_files: WeakValueDictionary[str, _File] = WeakValueDictionary()


def address(label: str, name: str, pieces: Callable[[], Iterator[bytes]]) -> str:
    """Return the URL path of a file offered under a label, valid as long as the session.

    "" if the app runs without its server.
    """
    if not live.is_served():
        return ""
    offers: dict[str, tuple[str, _File]] = st.session_state.setdefault(_KEY, {})
    token = offers[label][0] if label in offers else workers.new_token()
    offers[label] = token, _File(live.session().token, name, pieces)
    _files[token] = offers[label][1]
    return f"{_path()}/{token}"


class _Download(StreamingResponse):
    """A streamed file; refused while the session already has AT_ONCE downloads in progress."""

    def __init__(self, file: _File) -> None:
        name = f"attachment; filename*=UTF-8''{quote(file.name)}"
        headers = {"Content-Disposition": name, "Cache-Control": "no-store"}
        super().__init__(file.pieces(), media_type="application/octet-stream", headers=headers)
        self.owner = file.owner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _running[self.owner] >= AT_ONCE:
            await PlainTextResponse(BUSY, 429)(scope, receive, send)
            return
        _running[self.owner] += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            _running[self.owner] -= 1
            if not _running[self.owner]:
                del _running[self.owner]


async def _send(request: Request) -> Response:
    file = _files.get(request.path_params["token"])
    return PlainTextResponse(GONE, 404) if file is None else _Download(file)


def _path() -> str:
    return live.under_base("file")


def routes() -> list[BaseRoute]:
    route = Route(f"{_path()}/{{token}}", _send)
    # without HEAD, which Starlette adds and which would generate the whole file
    route.methods = {"GET"}
    return [route]
