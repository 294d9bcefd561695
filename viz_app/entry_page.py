"""ASGI middleware that serves the page a browser loads first, under every page's own path.

It is Streamlit's page with one more line before its scripts: the address of the server. Without it
the browser first looks for the server below the path of the page, and each load logs two failed
requests. The page ends with the app's style, for the first paint, and the script that reveals the
app once rendered.
"""

import json
import re
from pathlib import Path

import streamlit as st
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from viz_app.session import routes

_HERE = Path(__file__).parent


class EntryPage:
    """Middleware that answers for the paths of pages: at most one lower-case name below the base.

    The reference has pages of its own (viz_app/reference).
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        base = re.escape(routes.base_path())
        self.pages = re.compile(f"{base}/(?!reference/?$)([a-z][a-z-]*/?)?")
        self.content = entry_page()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_read = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        if is_read and self.pages.fullmatch(scope["path"]):
            response = HTMLResponse(self.content, headers={"Cache-Control": "no-cache"})
            await response(scope, receive, send)
        else:
            await self.app(scope, receive, send)


def entry_page() -> str:
    """Return Streamlit's page with its server's address and the app's style."""
    page = Path(st.__file__).with_name("static") / "index.html"
    where = f"new URL({json.dumps(routes.base_path() or '/')}, location.origin).href"
    script = f"<script>window.__streamlit = {{ BACKEND_BASE_URL: {where} }}</script>"
    style, first = (_HERE.joinpath(n).read_text("utf-8") for n in ("style.css", "first_paint.js"))
    end = f"<style>{style}</style><script>{first}</script></body>"
    content = page.read_text("utf-8").replace("<head>", f"<head>{script}", 1)
    return content.replace("</body>", end, 1)
