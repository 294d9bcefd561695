"""ASGI middleware that adds security headers to every HTTP response.

All content comes from this server. `blob:` is needed for Streamlit's component scripts and for
saved pictures, `wasm-unsafe-eval` for its protocol decoder; inline styles are used throughout
Streamlit; the entry page has three inline scripts, allowed by their hashes.
"""

import base64
import hashlib
import re

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from viz_app import workers
from viz_app.entry_page import entry_page


class ResponseHeaders:
    """Middleware that sets `security_headers` on every HTTP response of `app`."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.headers = security_headers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self.headers)
                if headers.get("content-type", "").startswith("text/html"):
                    headers.update(workers.cookie())
            await send(message)

        await self.app(scope, receive, send_with_headers if scope["type"] == "http" else send)


def security_headers() -> dict[str, str]:
    """Return the headers of every response, by name."""
    scripts = " ".join(inline_script_hashes(entry_page()))
    policy = {
        "default-src": "'self'",
        "script-src": f"'self' blob: 'wasm-unsafe-eval' {scripts}",
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data: blob:",
        "font-src": "'self' data:",
        "worker-src": "'self' blob:",
        "frame-src": "'self'",
        "object-src": "'none'",
        "base-uri": "'self'",
        "form-action": "'self'",
        "frame-ancestors": "'self'",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
    }


def inline_script_hashes(page: str) -> list[str]:
    """Return the Content-Security-Policy sources of the scripts written out in a page of HTML."""
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    return [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]
