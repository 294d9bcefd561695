"""Live updates while typing: pictures are redrawn at every keystroke and sent over a socket.

A Streamlit rerun costs several times as much as the model's run. So a page registers the function
that draws its pictures: the rerun uses it when typing pauses, and the socket uses it for every
keystroke. Every message carries the number of the text edit and of the rerun it belongs to, so that
the browser never replaces a newer picture by an older one, whichever path they take
(components/common/live.js).
"""

import asyncio
import json
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import streamlit as st
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from models import Scope
from models.field_file import FieldFile
from viz_app import workers
from viz_app.drawing.payload import pack
from viz_app.session import cache, process
from viz_app.session.current_run import CurrentRun
from viz_app.session.lanes import LaneRequest, Lanes, Reply, TypedTexts, are_long
from viz_app.session.member import Member
from viz_app.session.opening import Opening
from viz_app.session.parameters import LONGEST_TEXT, replace_surrogates
from viz_app.trainers.own_data import OwnData

Pictures = dict[str, bytes | dict]  # key of a component → its payload
Change = Callable[[CurrentRun], CurrentRun]

# ms without a keystroke before Streamlit reruns; leaving the box reruns at once
TYPING_PAUSE_MS = 1500
MAX_MESSAGE = 1_000_000  # characters of one message
SOCKETS = 4  # per session; a page needs one, and briefly a second one while it reconnects
PROTOCOL = "attnscope"  # WebSocket subprotocol, offered together with the session's token
MAX_FIELDS = 8  # texts in one message; no model has that many
_KEY = "live session"
_log = logging.getLogger(__name__)


def unchanged(original: CurrentRun) -> CurrentRun:
    """Return the run of the unchanged model."""
    return original


class LiveSession:
    """The part of a session that the socket needs."""

    def __init__(self) -> None:
        self.token = workers.new_token()  # authorises requests for this session
        self._run: CurrentRun | None = None
        self._aside: tuple[Scope, tuple[Any, ...], bool] | None = None  # scope, fields, stale
        self.change: Change = unchanged  # applies the page's changes to a run of this model
        self.beside: Change | None = None  # finds the pinned run that the page shows beside a run
        self.view: object = None  # the current page
        self.texts_are_set = False  # by a step of a lesson; kept when its model opens
        self.leaves_for = ""  # address of the page that the next rerun opens
        self.name = ""  # of the requested checkpoint
        self.picked = ""  # menu name of the current checkpoint
        self.opening: Opening | None = None  # of the requested checkpoint
        self.pinned_opening: Opening | None = None  # of the pinned run's model
        # what made the pictures of a pinned run whose text is fixed, and those pictures
        self.pinned_pictures: tuple[object, dict[str, Any]] | None = None
        self.scope: Scope | None = None  # None while it does not open
        # choices for the model's fields that are not typed (url_state.chosen)
        self.chosen: tuple[Any, ...] = ()
        self.member = Member()  # of a class
        self.own_data: OwnData | None = None  # what its runs may be trained on
        self.files: dict[str, FieldFile] = {}  # by what refers to them (own_files.py)
        self.edition = (0, 0)  # (edit, rerun) that the current rerun draws
        # the number of the last complete rerun, and its page's answer
        self._answer: tuple[int, Callable[..., Pictures] | None] = (0, None)
        self._written: deque[tuple[int, ...]] = deque(maxlen=24)  # by the model of `run`
        self._latest: tuple[int, TypedTexts | None] = (0, None)
        self._numbers: dict[TypedTexts, int] = {}  # of the edits newer than the last rerun
        self._lock = threading.Lock()

    @property
    def run(self) -> CurrentRun | None:
        """The last run of the unchanged model that could be shown, recomputed if put aside."""
        if self._run is None and self._aside is not None:
            scope, values, stale = self._aside
            self.run = CurrentRun(scope, cache.given_trace(scope, *values), stale)
        return self._run

    @run.setter
    def run(self, run: CurrentRun | None) -> None:
        self._run, self._aside = run, None

    def put_aside(self) -> None:
        """Release the run and the pinned pictures until they are next needed.

        They may be large, and no browser is connected.
        """
        with self._lock:
            if run := self._run:
                self._aside = run.scope, tuple(run.trace.fields.values()), run.stale
                self._run = None
            self.pinned_pictures = None

    @property
    def answer(self) -> Callable[..., Pictures] | None:
        """The function that draws all pictures of the page for new texts; None if there is none."""
        return self._answer[1]

    @answer.setter
    def answer(self, answer: Callable[..., Pictures] | None) -> None:
        self._answer = self.edition[1], answer

    @property
    def shown(self) -> CurrentRun:
        """The last run, with the session's changes."""
        return self.change(self.run)

    @property
    def is_open(self) -> bool:
        """True if every keystroke is answered over the socket."""
        return _served.is_set() and self.answer is not None

    @property
    def pause(self) -> int:
        """The ms without a keystroke before Streamlit reruns; 0 where only a rerun can answer."""
        return TYPING_PAUSE_MS if self.is_open and self.run.scope is self.scope else 0

    def show(self, run: CurrentRun) -> None:
        """Make this the shown run, unless the session has changed its model in the meantime."""
        model = run.scope.model
        written = run.trace.streams[model.writes].ids[1:] if model.can_write else ()
        with self._lock:
            if run.scope is not self.scope:
                return
            last = self._run.scope if self._run else self._aside and self._aside[0]
            if last is not run.scope:
                self._written.clear()
                self.change = unchanged
            if written and not run.trace.teacher_forced and written not in self._written:
                self._written.append(written)
            self.run = run

    def keep_last(self) -> CurrentRun | None:
        """Keep showing the last run, marked as stale; None if there is none."""
        with self._lock:
            self.run = replace(self.run, stale=True) if self.run else None
            return self.run

    def drafts(self, scope: Scope) -> tuple[tuple[int, ...], ...]:
        """Return recent outputs of this model, likely to be generated again.

        They are the draft tokens of models.decoding.generate.
        """
        return tuple(self._written) if self.run and self.run.scope is scope else ()

    def begin(self) -> None:
        """Begin a rerun, whose pictures are newer than all before it."""
        self.edition = self.edition[0], self.edition[1] + 1

    def redraw(self, *texts: str) -> None:
        """Use these texts, typed or set by the app, for the rest of the rerun."""
        with self._lock:
            number = self._numbers[texts] if texts in self._numbers else self._number(texts)
            self._numbers = {t: n for t, n in self._numbers.items() if n >= number}
            self.edition = number, self.edition[1]

    def edit(self, *texts: str) -> bytes | None:
        """Return the browser message for new texts; None if the page has no pictures to give."""
        rerun, answer = self._answer
        if answer is None:
            return None
        with self._lock:
            number = self._number(texts)
        pictures = answer(*texts)
        plain = {key: data for key, data in pictures.items() if isinstance(data, dict)}
        packed = {
            key: np.frombuffer(data, np.uint8)
            for key, data in pictures.items()
            if isinstance(data, bytes)
        }
        return pack({"edition": (number, rerun), "said": plain}, **packed)

    def _number(self, texts: TypedTexts) -> int:
        if self._latest[1] != texts:
            self._latest = self._latest[0] + 1, texts
        self._numbers[texts] = self._latest[0]
        return self._latest[0]


_served = threading.Event()
_sessions: WeakValueDictionary[str, LiveSession] = (
    WeakValueDictionary()
)  # sessions keep theirs alive


def live_session() -> LiveSession:
    """Return this browser session's LiveSession, created on first use."""
    if _KEY not in st.session_state:
        created = LiveSession()
        st.session_state[_KEY] = _sessions[created.token] = created
    return st.session_state[_KEY]


def by_token(token: str) -> LiveSession | None:
    """Return the session that has this token."""
    return _sessions.get(token)


_open: Counter[str] = Counter()  # sockets of each session, by its token


async def _answers(socket: WebSocket) -> None:
    """Serve one browser's socket: for each message of texts, a message of pictures.

    The answer to texts that newer ones have replaced is empty. The socket is closed without an
    explanation for an unknown session, too many sockets or a malformed message, and its pending
    requests are cancelled. Its origin has already been checked in host_guard.py.
    """
    token = (socket.scope["subprotocols"] or [""])[-1]
    if token not in _sessions or _open[token] >= SOCKETS:
        await socket.close()
        return
    _open[token] += 1
    replies: set[asyncio.Task] = set()
    try:
        await socket.accept(PROTOCOL)
        while (texts := _texts(await socket.receive())) and (live_session := _sessions.get(token)):
            reply = asyncio.create_task(_reply(socket, live_session, texts))
            replies.add(reply)
            reply.add_done_callback(replies.discard)
            del live_session  # so that the socket does not keep an ended session alive
        await socket.close()
    except WebSocketDisconnect:
        return
    finally:
        for reply in replies:
            reply.cancel()
        _open.subtract([token])
        if not _open[token]:
            del _open[token]
            _leave(token)


def _leave(token: str) -> None:
    """Release what the session of a closed page holds.

    Streamlit keeps the session itself for minutes, in case the page reconnects.
    """
    if session := _sessions.get(token):
        session.put_aside()
        process.give_back_soon()


async def _reply(socket: WebSocket, session: LiveSession, texts: TypedTexts) -> None:
    answer = await _lanes.answer(session, texts) or b""
    with suppress(WebSocketDisconnect, RuntimeError):  # the browser may have disconnected
        await socket.send_bytes(answer)


def _texts(message: Message) -> TypedTexts | None:
    """Return the texts of a message, without lone surrogates; None if the message is malformed.

    Raises:
        WebSocketDisconnect: the browser has disconnected.
    """
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect
    text = message.get("text") or ""  # None for bytes
    try:
        request = json.loads(text) if len(text) <= MAX_MESSAGE else {}
        texts = request["texts"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if (
        not isinstance(texts, list)
        or not 1 <= len(texts) <= MAX_FIELDS
        or not all(isinstance(text, str) and len(text) <= LONGEST_TEXT for text in texts)
    ):
        return None
    return tuple(map(replace_surrogates, texts))


def _answer(batch: Sequence[LaneRequest], reply: Reply) -> None:
    """Answer each request of a batch with `LiveSession.edit`, after running their texts together.

    The answer is None if that fails: the rerun will fail in the same way and show the error.
    """
    if len(batch) > 1:
        requests = {(r.session.name, r.texts, r.session.chosen) for r in batch}
        _attempted(cache.run_together, requests)
    for request in batch:
        reply(request, _attempted(request.session.edit, *request.texts))
    if any(are_long(request.texts) for request in batch):
        process.give_back_soon()


def _attempted(work: Callable[..., bytes | None], *args: object) -> bytes | None:
    """Return the result of the work; log any error and return None.

    A panic in a Rust library such as `tokenizers` is not an Exception; it must not affect the other
    requests of the batch.
    """
    try:
        return work(*args)
    except BaseException:
        _log.exception("an edit could not be answered")
        return None


_lanes = Lanes(_answer)


def socket_path() -> str:
    """Return the socket's URL path."""
    return under_base("live")


def under_base(name: str) -> str:
    """Return the URL path of one of the app's own routes, below Streamlit's base path."""
    base = st.get_option("server.baseUrlPath").strip("/")
    return f"/{base}/{name}" if base else f"/{name}"


def is_served() -> bool:
    """Return True if the app runs in its own server, which has the routes."""
    return _served.is_set()


def socket_routes() -> list[BaseRoute]:
    """Return the socket's route; without it, only Streamlit's reruns update the page."""
    _served.set()
    return [WebSocketRoute(socket_path(), _answers)]
