"""Take a file from a session: of bounded size, in bounded time, one at a time.

Streamlit's own upload is closed (host_guard.py): it keeps up to 50 MB a file in memory for anyone.
"""

import asyncio
from collections import Counter
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from viz_app.session import routes
from viz_app.session.live import LiveSession

UPLOAD_SECONDS = 60.0  # s within which a file must arrive
TOO_SLOW = "The file did not arrive in time."
UPLOAD_BUSY = "Another of your files is still being read."
_sending: Counter[str] = Counter()  # requests in progress, by session token

KeepFile = Callable[[LiveSession, bytes, Request], dict[str, str]]


async def receive_file(
    request: Request, largest: int, may: Callable[[LiveSession], bool], keep: KeepFile
) -> Response:
    """Read a file of at most `largest` bytes and answer with what `keep` returns.

    `keep` raises ValueError for a file that it refuses. A session that is not known, or may not
    send a file, is told that there is no such session.
    """
    session = routes.session_of(request)
    if session is None or not may(session):
        return PlainTextResponse("There is no such session.", 404)
    if _sending[session.token]:
        return JSONResponse({"error": UPLOAD_BUSY}, 429)
    _sending[session.token] += 1
    try:
        content = await asyncio.wait_for(_content(request, largest), UPLOAD_SECONDS)
        message = await asyncio.to_thread(keep, session, content, request)
    except asyncio.TimeoutError:
        return JSONResponse({"error": TOO_SLOW}, 408)
    except (ValueError, OSError) as error:
        return JSONResponse({"error": _message(error)}, 422)
    finally:
        del _sending[session.token]
    return JSONResponse(message, headers={"Cache-Control": "no-store"})


async def _content(request: Request, largest: int) -> bytes:
    """Return the body.

    Raises:
        ValueError: It is too large; the rest is not read.
    """
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > largest:
            raise ValueError(f"The file is larger than {largest / 1e6:g} MB.")
    return bytes(content)


def _message(error: Exception) -> str:
    """Return the message of an error; an OSError is quoted without the paths of the server."""
    return (
        f"The file could not be saved: {error.strerror}"
        if isinstance(error, OSError)
        else str(error)
    )
