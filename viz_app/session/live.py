"""Live while typing: a page's pictures are made anew at every key and sent over a socket of their own.

A rerun of Streamlit's script costs several times what its numbers cost. So a page hands over how its pictures are made; the
rerun draws through the same function, but comes only when typing rests; the socket answers each key with the pictures
alone. Every picture goes with the number of the edit of the texts that it shows, and of the rerun whose choices it follows,
so that the browser never puts an older one in the place of a newer one, whichever way they come (components/common/live.js).
"""

import asyncio
import json
import logging
import secrets
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import streamlit as st
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from models import Scope
from viz_app.drawing.payload import pack
from viz_app.session import cache, memory
from viz_app.session.current_run import CurrentRun
from viz_app.session.lanes import Lanes, Reply, Request, Texts, is_long
from viz_app.session.opening import Opening
from viz_app.session.parameters import LONGEST_TEXT, whole

Pictures = dict[str, bytes | dict]  # key of a component → what it shows

PAUSE = 1500  # ms; after so long without a key Streamlit's rerun follows; whoever leaves the box has it at once
LARGEST = 1_000_000  # characters of one message
SOCKETS = 4  # of one session; its page needs one, and for a moment a second when that has broken
PROTOCOL = "attnscope"  # of the socket; the browser offers it together with the session's token
FIELDS = 8  # texts of one message; no model has so many
_KEY = "live session"
_log = logging.getLogger(__name__)


class LiveSession:
    """What the socket needs of one session."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(16)  # whoever knows it may ask
        self.run: CurrentRun | None = (
            None  # the last run of the unchanged model that could be shown
        )
        self.change: Callable[[CurrentRun], CurrentRun] = lambda own: own  # by the page's changes
        self.view: object = None  # the page that stands
        self.name = ""  # of the checkpoint asked for
        self.picked = ""  # what the picker calls the one that stands
        self.opening: Opening | None = None  # of the one that is to stand
        self.scope: Scope | None = None  # None while it does not open
        self.chosen: tuple[
            Any, ...
        ] = ()  # of the model's fields that are not typed (url_state.chosen)
        self.edition = (0, 0)  # of what the rerun under way draws: (edit, rerun)
        self._answer: tuple[int, Callable[..., Pictures] | None] = (
            0,
            None,
        )  # of the page as that rerun left it
        self._written: deque[tuple[int, ...]] = deque(maxlen=24)  # by the model of `run`
        self._latest: tuple[int, Texts | None] = (0, None)
        self._numbers: dict[Texts, int] = {}  # of the edits that no rerun has overtaken
        self._lock = threading.Lock()

    @property
    def answer(self) -> Callable[..., Pictures] | None:
        """Makes all pictures of the page that stands, for two texts; None if it has none to give."""
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
        """Is every key answered over the socket?"""
        return _served.is_set() and self.answer is not None

    @property
    def pause(self) -> int:
        """How many ms without a key pass before Streamlit's rerun follows: none where it is all the answer there is."""
        return PAUSE if self.is_open and self.run.scope is self.scope else 0

    def show(self, run: CurrentRun) -> None:
        """A new run, to be shown from now on."""
        model = run.scope.model
        written = run.trace.streams[model.writes].ids[1:] if model.can_write else ()
        if not (self.run and self.run.scope is run.scope):
            self._written.clear()
        if written and not run.trace.teacher_forced and written not in self._written:
            self._written.append(written)
        self.run = run

    def drafts(self, scope: Scope) -> tuple[tuple[int, ...], ...]:
        """What this model has written lately: much of it will be written again (models.decoding.written)."""
        return tuple(self._written) if self.run and self.run.scope is scope else ()

    def redraw(self, *texts: str) -> None:
        """A rerun begins that draws these texts, typed or put there."""
        with self._lock:
            number = self._numbers[texts] if texts in self._numbers else self._number(texts)
            self._numbers = {t: n for t, n in self._numbers.items() if n >= number}
            self.edition = number, self.edition[1] + 1

    def edit(self, *texts: str) -> bytes | None:
        """The message to the browser for newly typed texts; None on a page that has no pictures to give."""
        rerun, answer = self._answer
        if answer is None:
            return None
        with self._lock:
            number = self._number(texts)
        pictures = answer(*texts)
        said = {key: data for key, data in pictures.items() if isinstance(data, dict)}
        painted = {
            key: np.frombuffer(data, np.uint8)
            for key, data in pictures.items()
            if isinstance(data, bytes)
        }
        return pack({"edition": (number, rerun), "said": said}, **painted)

    def _number(self, texts: Texts) -> int:
        if self._latest[1] != texts:
            self._latest = self._latest[0] + 1, texts
        self._numbers[texts] = self._latest[0]
        return self._latest[0]


_served = threading.Event()
_sessions: WeakValueDictionary[str, LiveSession] = (
    WeakValueDictionary()
)  # sessions keep theirs alive


def session() -> LiveSession:
    """This session's own."""
    if _KEY not in st.session_state:
        mine = LiveSession()
        st.session_state[_KEY] = _sessions[mine.token] = mine
    return st.session_state[_KEY]


_open: Counter[str] = Counter()  # sockets of each session, by its token


async def _answers(socket: WebSocket) -> None:
    """Serve one browser's socket: {texts} in, one message of pictures out for each, empty for texts that newer ones have overtaken.

    It ends without a word for who is of no session, has too many sockets, or asks what no page of ours asks, and what it has asked for
    then waits no more. Where it comes from, door.py has looked at."""
    token = (socket.scope["subprotocols"] or [""])[-1]
    if token not in _sessions or _open[token] >= SOCKETS:
        await socket.close()
        return
    _open[token] += 1
    replies: set[asyncio.Task] = set()
    try:
        await socket.accept(PROTOCOL)
        while (texts := _texts(await socket.receive())) and (mine := _sessions.get(token)):
            reply = asyncio.create_task(_reply(socket, mine, texts))
            replies.add(reply)
            reply.add_done_callback(replies.discard)
            del mine  # a session that has ended is not kept by its socket
        await socket.close()
    except WebSocketDisconnect:
        return
    finally:
        for reply in replies:
            reply.cancel()
        _open.subtract([token])
        if not _open[token]:
            del _open[token]


async def _reply(socket: WebSocket, session: LiveSession, texts: Texts) -> None:
    answer = await _lanes.answer(session, texts) or b""
    with suppress(WebSocketDisconnect, RuntimeError):  # the browser may have gone
        await socket.send_bytes(answer)


def _texts(message: Message) -> Texts | None:
    """The texts of a message, in whole characters; None for one that nobody of ours sends."""
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect
    text = message.get("text") or ""  # None for bytes
    try:
        asked = json.loads(text) if len(text) <= LARGEST else {}
        texts = asked["texts"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if (
        not isinstance(texts, list)
        or not 1 <= len(texts) <= FIELDS
        or not all(isinstance(text, str) and len(text) <= LONGEST_TEXT for text in texts)
    ):
        return None
    return tuple(map(whole, texts))


def _answer(batch: Sequence[Request], reply: Reply) -> None:
    """Answer each request of a batch with what `LiveSession.edit` returns; None, too, if that fails: the rerun will fail in the same
    way and say so. What can be run together is."""
    if len(batch) > 1:
        requests = {(r.session.name, r.texts, r.session.chosen) for r in batch}
        _attempted(cache.run_together, requests)
    for request in batch:
        reply(request, _attempted(request.session.edit, *request.texts))
    if any(is_long(request.texts) for request in batch):
        memory.give_back()


def _attempted(work: Callable[..., bytes | None], *given: object) -> bytes | None:
    """What the work returns; None if it fails, which then stands in the log. A panic in a library written in Rust, such as
    `tokenizers`, is no Exception, and whose edit it is has no part in the others'."""
    try:
        return work(*given)
    except BaseException:
        _log.exception("an edit could not be answered")
        return None


_lanes = Lanes(_answer)


def path() -> str:
    """Where the socket is, as browsers see it."""
    return under_base("live")


def under_base(name: str) -> str:
    """Where something of ours is, as browsers see it."""
    base = st.get_option("server.baseUrlPath").strip("/")
    return f"/{base}/{name}" if base else f"/{name}"


def is_served() -> bool:
    """Return True if the app runs in its server, which has the routes."""
    return _served.is_set()


def routes() -> list[BaseRoute]:
    """The socket, for the server that will serve it; without it Streamlit's reruns are all there is."""
    _served.set()
    return [WebSocketRoute(path(), _answers)]
