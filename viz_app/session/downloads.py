"""Files that are sent while they are made, over a route of their own: those of a long text are larger than what a server should
hold for everybody who asks. Streamlit's own button holds a whole file until the session ends."""

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import quote
from weakref import WeakValueDictionary

import streamlit as st
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from viz_app.session import live

_KEY = "downloads"


@dataclass(eq=False)
class _File:
    """One that is offered: its name, and what makes its pieces anew for everybody who takes it."""

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
    mine[label] = token, _File(name, pieces)
    _files[token] = mine[label][1]
    return f"{_path()}/{token}"


async def _send(request: Request) -> Response:
    found = _files.get(request.path_params["token"])
    if found is None:
        return PlainTextResponse(
            "This file is no longer offered: go back to its page and take it there.", 404
        )
    named = f"attachment; filename*=UTF-8''{quote(found.name)}"
    headers = {
        "Content-Disposition": named,
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }
    return StreamingResponse(found.pieces(), media_type="application/octet-stream", headers=headers)


def _path() -> str:
    return live.under_base("file")


def routes() -> list[BaseRoute]:
    return [Route(f"{_path()}/{{token}}", _send)]
