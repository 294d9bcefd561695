"""The route that takes the data of one's own for the page Train, a file at a time.

Streamlit's own upload is closed: it keeps 50 MB a file in memory for whoever asks. This one takes
5 MB from a session of this server, and only while the app trains.
"""

import asyncio
from collections import Counter

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from viz_app.session import live, run_owners
from viz_app.session.live import LiveSession
from viz_app.trainers import own_data

PATIENCE = 60.0  # s in which a file must have arrived
SLOWLY = "The file did not arrive in time."
BUSY = "A file of yours is being read already."
_sending: Counter[str] = Counter()  # requests in progress, by session token


async def _take(request: Request) -> Response:
    """Read a file, and answer with what it holds or with what is wrong with it."""
    token = request.headers.get("authorization", "").removeprefix("Bearer ")
    session = live.by_token(token)
    if session is None or run_owners.pool().n < 1:
        return PlainTextResponse("There is no such session.", 404)
    if _sending[token]:
        return JSONResponse({"error": BUSY}, 429)
    _sending[token] += 1
    try:
        content = await asyncio.wait_for(_content(request), PATIENCE)
        kept = await asyncio.to_thread(_keep, session, content, request)
    except asyncio.TimeoutError:
        return JSONResponse({"error": SLOWLY}, 408)
    except (ValueError, OSError) as error:
        return JSONResponse({"error": _message(error)}, 422)
    finally:
        del _sending[token]
    return JSONResponse({"kept": kept}, headers={"Cache-Control": "no-store"})


async def _content(request: Request) -> bytes:
    """Return the body.

    Raises:
        ValueError: It is too large; the rest is not read.
    """
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > own_data.LARGEST:
            raise ValueError(f"More than {own_data.LARGEST:,} bytes.")
    return bytes(content)


def _keep(session: LiveSession, content: bytes, request: Request) -> str:
    kind, name = request.path_params["kind"], request.query_params.get("name", "")
    session.own_data = own_data.keep(content, kind, name)
    return session.own_data.in_words


def _message(error: Exception) -> str:
    """Return the message of an error; one of the machine does not say where its folders are."""
    return f"It cannot be kept: {error.strerror}" if isinstance(error, OSError) else str(error)


def path(kind: str = "{kind}") -> str:
    """Return the route's URL path for a kind of data."""
    return live.under_base(f"own-data/{kind}")


def routes() -> list[BaseRoute]:
    return [Route(path(), _take, methods=["POST"])]
