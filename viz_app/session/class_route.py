"""The routes over which a page follows its class: updates, and the predictions as CSV.

A request for an update waits until it differs from what the page has. So a hundred pages send five
requests a second in all, and each learns of a step within half a second.
"""

import asyncio
from collections import Counter

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from viz_app.drawing.csv_file import csv_table
from viz_app.lessons.form import PredictionForm, value_of, words_of
from viz_app.lessons.lesson import CELLS_STEP
from viz_app.session import class_state, routes
from viz_app.session.classes import ClassError, open_classes
from viz_app.session.live import LiveSession

CLASS_WAIT_SECONDS, CLASS_LOOK_SECONDS = (
    20.0,
    0.5,
)  # s that a request waits for an update, and between two looks at the class
MAX_CLASS_REQUESTS = 3  # requests of one session
_waiting: Counter[str] = Counter()  # requests in progress, by session token


async def _update(request: Request) -> Response:
    """Answer with an update on the class, once it differs from the version in the path."""
    session = routes.session_of(request)
    if session is None or not session.member.person:
        return PlainTextResponse("There is no such session.", 404)
    if _waiting[session.token] >= MAX_CLASS_REQUESTS:
        return PlainTextResponse("This page is already waiting for updates.", 429)
    _waiting[session.token] += 1
    try:
        return await _when_new(session, request.path_params["version"])
    finally:
        _waiting[session.token] -= 1
        if not _waiting[session.token]:
            del _waiting[session.token]


async def _when_new(session: LiveSession, version: str) -> Response:
    loop = asyncio.get_running_loop()
    end = loop.time() + CLASS_WAIT_SECONDS
    await asyncio.to_thread(_touch, session)
    while True:
        update = await asyncio.to_thread(class_state.class_update, session)
        new = class_state.version(update)
        if new != version or loop.time() > end:
            answer = JSONResponse(
                {"version": new, "news": update}, headers={"Cache-Control": "no-store"}
            )
            answer.set_cookie(
                class_state.PERSON_COOKIE, session.member.person, httponly=True, samesite="lax"
            )
            return answer
        await asyncio.sleep(CLASS_LOOK_SECONDS)


def _touch(session: LiveSession) -> None:
    """Mark the person as present."""
    try:
        open_classes().join(session.member.code, session.member.person)
    except ClassError:  # full since
        session.member.code = ""


async def _table(request: Request) -> Response:
    """Answer with all predictions of the class that the session leads."""
    session = routes.session_of(request)
    if session is None or not await asyncio.to_thread(class_state.leads_class, session):
        return PlainTextResponse("Only the teacher of a class can see its predictions.", 404)
    return PlainTextResponse(
        await asyncio.to_thread(_csv, session.member.code), media_type="text/csv"
    )


def _csv(code: str) -> str:
    rows = []
    for step, form, votes in open_classes().predictions_by_step(code):
        rows += [(step, _table_text(form, prediction), n) for prediction, n in votes]
    return csv_table(("step", "prediction", "count"), rows)


def _table_text(form: PredictionForm, prediction: str) -> str:
    """Return a prediction in words, followed by its cells if it has any: "3 of 4 cells: 10-11"."""
    text = words_of(form, value_of(form, prediction))
    return f"{text}: {prediction}" if form["kind"] == CELLS_STEP else text


def class_path() -> str:
    """Return the URL path of the updates; a page appends the version that it has."""
    return routes.under_base("class")


def table_path() -> str:
    """Return the URL path of the predictions as CSV."""
    return f"{class_path()}/predictions.csv"


def class_routes() -> list[BaseRoute]:
    return [Route(table_path(), _table), Route(f"{class_path()}/{{version}}", _update)]
