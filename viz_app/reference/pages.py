"""The pages of the reference under /reference/: one for each module, by pdoc, and one of names."""

import asyncio
import sys
import threading
import warnings
from functools import cache
from importlib import import_module
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from viz_app.reference import names
from viz_app.session import routes

NAME = "reference"

MODULES = (
    "models",
    "models.trace",
    "models.trace.edits",
    "models.trace.outputs",
    "models.analysis",
    "models.analysis.cells",
    "models.analysis.comparison",
    "models.analysis.effects",
    "models.analysis.head_measures",
    "models.analysis.metrics",
    "models.decoding",
    "viz_app.notebook",
)
INDEX_PAGE, NAMES_PAGE = "index.html", "names.html"
_lock = threading.Lock()


def reference_routes() -> list[BaseRoute]:
    """Return the routes; all pages are known beforehand, and no path reaches the file system."""
    path = routes.under_base(NAME)
    return [Route(path, _index), Route(f"{path}/", _index), Route(f"{path}/{{path:path}}", _page)]


async def _index(_: Request) -> Response:
    return RedirectResponse(f"{routes.under_base(NAME)}/{INDEX_PAGE}")


async def _page(request: Request) -> Response:
    pages_by_path = await asyncio.to_thread(pages)
    page = pages_by_path.get(request.path_params["path"])
    return PlainTextResponse("There is no such page.", 404) if page is None else HTMLResponse(page)


def pages() -> dict[str, str]:
    """Return all pages, HTML by path. They contain no script and load nothing."""
    with _lock:  # a request while they are made waits for them
        return _pages()


@cache
def _pages() -> dict[str, str]:
    from pdoc import doc, render  # on demand: few visitors read the reference

    render.configure(
        docformat="google",
        search=False,
        show_source=False,
        template_directory=Path(__file__).with_name("templates"),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about annotations that only a type checker can read
        modules = {name: doc.Module(_imported(name)) for name in MODULES}
        by_path = {path_of(name): render.html_module(modules[name], modules) for name in MODULES}
    by_path[INDEX_PAGE] = render.html_index(modules)
    template = render.env.get_template("names.html.jinja2")
    by_path[NAMES_PAGE] = template.render(
        models=names.recorded_names(), site=names.SITE_NAMES, all_modules=modules
    )
    return by_path


def path_of(module: str) -> str:
    """Return the path of a module's page."""
    return f"{module.replace('.', '/')}.html"


def _imported(name: str) -> object:
    import_module(name)
    return sys.modules[name]
