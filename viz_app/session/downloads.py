"""Files that are sent while they are made, over a route of their own: those of a long text are larger than what a server should
hold for everybody who asks. Streamlit's own button holds a whole file until the session ends."""

import secrets
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

from viz_app.session import live

AT_ONCE = 2  # files on their way to one session; each is computed while it is sent
BUSY = f"{AT_ONCE} files are being sent to you: take this one when they are there."
GONE = "This file is no longer offered: go back to its page and take it there."
_KEY = "downloads"
_running: Counter[str] = Counter()  # files on their way, by the token of their session


@dataclass(eq=False)
class _File:
    """A file on offer: the token of its session, its name, and what makes its pieces anew for everybody who takes it."""

    owner: str
    name: str
    pieces: Callable[[], Iterator[bytes]]


_files: WeakValueDictionary[str, _File] = (
    WeakValueDictionary()
)  # by a token; sessions keep theirs alive


def address(label: str, name: str, pieces: Callable[[], Iterator[bytes]]) -> str:
    """Where a browser finds the file that this session offers under a label, as long as the session lasts; "" where the app runs
    without its server."""
    if not live.is_served():
        return ""
    mine: dict[str, tuple[str, _File]] = st.session_state.setdefault(_KEY, {})
    token = mine[label][0] if label in mine else secrets.token_urlsafe(16)
    mine[label] = token, _File(live.session().token, name, pieces)
    _files[token] = mine[label][1]
    return f"{_path()}/{token}"


class _Download(StreamingResponse):
    """One file on its way; refused while its session already takes as many as it may."""

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
    route.methods = {"GET"}  # HEAD, which Starlette adds, would make the whole file for nobody
    return [route]
