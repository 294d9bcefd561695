"""Downloads over a route of their own: a file is made while it is sent, when it is requested.

A link is valid as long as its session, and its file is about the run that is shown at the time of
the request. Streamlit's download button would hold whole files until the session ends, and forget
its file at every rerun: a click meanwhile would lead nowhere.
"""

import mimetypes
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from urllib.parse import quote
from weakref import WeakValueDictionary

import streamlit as st
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from models import InputError
from viz_app import checkpoints, workers
from viz_app.drawing.stamp import Facts, FileContent, stamped_pieces
from viz_app.session import live, routes

MAX_DOWNLOADS = 2  # simultaneous downloads of one session; each is computed while it is sent
DOWNLOADS_BUSY = f"{MAX_DOWNLOADS} downloads are running; try this one when they have finished."
GONE = "This file is no longer offered; open its page again and download it there."
_KEY = "downloads"
_running: Counter[str] = Counter()  # downloads in progress, by session token


@dataclass(frozen=True)
class Download:
    """A file to download: its label, its name, its content, and the facts about its run."""

    label: str
    name: str
    make: Callable[[], FileContent]
    about: Callable[[], Facts]

    def pieces(self) -> Iterator[bytes]:
        """Make the file and yield it in pieces.

        Raises:
            InputError: The model cannot run what the file shows.
        """
        content = stamped_pieces(self.make(), self.name, self.about())
        return chain([next(content)], content)


@dataclass(eq=False)
class _Offer:
    """A download and the token of the session that it is offered to."""

    owner: str
    file: Download


# by token; each session keeps its own offers alive
_offers: WeakValueDictionary[str, _Offer] = WeakValueDictionary()


def download_address(file: Download) -> str:
    """Return the URL path of a file, which stays the same for its label within a session."""
    offers: dict[str, tuple[str, _Offer]] = st.session_state.setdefault(_KEY, {})
    token = offers[file.label][0] if file.label in offers else workers.new_token()
    offers[file.label] = token, _Offer(live.live_session().token, file)
    _offers[token] = offers[file.label][1]
    return f"{_path()}/{token}"


class _Answer(Response):
    """The file of an offer; refused while its session has MAX_DOWNLOADS downloads in progress."""

    def __init__(self, offer: _Offer) -> None:
        super().__init__()
        self.offer = offer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _running[self.offer.owner] >= MAX_DOWNLOADS:
            await PlainTextResponse(DOWNLOADS_BUSY, 429)(scope, receive, send)
            return
        with _counted(self.offer.owner):
            try:
                content = await run_in_threadpool(self.offer.file.pieces)
            except InputError as error:
                message = checkpoints.error_message(error)
                await PlainTextResponse(message, 422)(scope, receive, send)
            else:
                await _file_response(self.offer.file.name, content)(scope, receive, send)


def _file_response(name: str, content: Iterator[bytes]) -> StreamingResponse:
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}",
        "Cache-Control": "no-store",
    }
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return StreamingResponse(content, media_type=kind, headers=headers)


@contextmanager
def _counted(owner: str) -> Iterator[None]:
    _running[owner] += 1
    try:
        yield
    finally:
        _running[owner] -= 1
        if not _running[owner]:
            del _running[owner]


async def _answer(request: Request) -> Response:
    offer = _offers.get(request.path_params["token"])
    return PlainTextResponse(GONE, 404) if offer is None else _Answer(offer)


def _path() -> str:
    return routes.under_base("file")


def download_routes() -> list[BaseRoute]:
    route = Route(f"{_path()}/{{token}}", _answer)
    # without HEAD, which Starlette adds and which would generate the whole file
    route.methods = {"GET"}
    return [route]
