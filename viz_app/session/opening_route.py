"""The route over which a page polls the opening of its model.

A Streamlit fragment that runs at intervals would do, but each of its requests carries the values of
all widgets. On a busy machine a browser sends them before it has applied the values just set in
Python, and Streamlit takes the old value for a choice of the user: the previous model was opened
again, texts of a link were lost, callbacks ran for a model that was gone.
"""

import asyncio
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from viz_app.session import routes
from viz_app.session.opening import Opening

OPENING_LOOK_SECONDS = 0.25  # s that a request waits for an opening to end


async def _tell(request: Request) -> Response:
    """Answer with the progress of an opening.

    `ready` is True if it has ended or the session no longer waits for it.
    """
    session = routes.session_of(request)
    if session is None:
        return PlainTextResponse("There is no such session.", 404)
    number = request.path_params["number"]
    openings = (session.opening, session.pinned_opening)
    pending = next(
        (opening for opening in openings if opening and str(opening.number) == number), None
    )
    if pending is None:
        return JSONResponse({"ready": True})
    await _ended(pending, OPENING_LOOK_SECONDS)
    answer = {"ready": pending.ready(0), "share": pending.share, "progress": pending.progress}
    return JSONResponse(answer, headers={"Cache-Control": "no-store"})


async def _ended(pending: Opening, seconds: float) -> None:
    """Wait for the end of an opening, at most this many seconds."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def tell(_: object) -> None:
        with suppress(RuntimeError):  # the server has stopped
            loop.call_soon_threadsafe(ended.set)

    pending.future.add_done_callback(tell)
    with suppress(TimeoutError):
        await asyncio.wait_for(ended.wait(), seconds)


def opening_path() -> str:
    """Return the route's URL path; a page appends the number of an opening."""
    return routes.under_base("opening")


def opening_routes() -> list[BaseRoute]:
    return [Route(f"{opening_path()}/{{number}}", _tell)]
