"""The routes of the reference: /reference/ and the pages below it."""

import asyncio

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from viz_app.reference import pages
from viz_app.session import routes

NAME = "reference"


async def _page(request: Request) -> Response:
    pages_by_path = await asyncio.to_thread(pages.pages)
    page = pages_by_path.get(request.path_params["path"])
    return PlainTextResponse("There is no such page.", 404) if page is None else HTMLResponse(page)


async def _index(_: Request) -> Response:
    return RedirectResponse(f"{routes.under_base(NAME)}/{pages.INDEX_PAGE}")


def reference_routes() -> list[BaseRoute]:
    """Return the routes; all pages are known beforehand, and no path reaches the file system."""
    path = routes.under_base(NAME)
    return [Route(path, _index), Route(f"{path}/", _index), Route(f"{path}/{{path:path}}", _page)]
