"""The socket that a page sends its texts over at every keystroke, and gets its pictures from."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

from starlette.routing import BaseRoute, WebSocketRoute
from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from viz_app.session import cache, live, process, routes
from viz_app.session.lanes import LaneRequest, Lanes, Reply, TypedTexts, are_long
from viz_app.session.live import LiveSession, by_token
from viz_app.session.parameters import MAX_TEXT_LENGTH, replace_surrogates

MAX_MESSAGE = 1_000_000  # characters of one message
SOCKETS = 4  # per session; a page needs one, and briefly a second one while it reconnects
PROTOCOL = "attnscope"  # WebSocket subprotocol, offered together with the session's token
MAX_FIELDS = 8  # texts in one message; no model has that many
_log = logging.getLogger(__name__)
_open: Counter[str] = Counter()  # sockets of each session, by its token


async def _answers(socket: WebSocket) -> None:
    """Serve one browser's socket: for each message of texts, a message of pictures.

    The answer to texts that newer ones have replaced is empty. The socket is closed without an
    explanation for an unknown session, too many sockets or a malformed message, and its pending
    requests are cancelled. Its origin has already been checked in host_guard.py.
    """
    token = (socket.scope["subprotocols"] or [""])[-1]
    if by_token(token) is None or _open[token] >= SOCKETS:
        await socket.close()
        return
    _open[token] += 1
    replies: set[asyncio.Task] = set()
    try:
        await socket.accept(PROTOCOL)
        while (texts := _texts(await socket.receive())) and (live_session := by_token(token)):
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
    if session := by_token(token):
        session.put_aside()
        process.release_memory_soon()


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
        or not all(isinstance(text, str) and len(text) <= MAX_TEXT_LENGTH for text in texts)
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
        process.release_memory_soon()


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
    return routes.under_base("live")


def socket_routes() -> list[BaseRoute]:
    """Return the socket's route; without it, only Streamlit's reruns update the page."""
    live.served.set()
    return [WebSocketRoute(socket_path(), _answers)]
