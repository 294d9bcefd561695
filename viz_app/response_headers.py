"""ASGI middleware that puts security headers on every HTTP response: what a page may load, who may frame it, no sniffing of types.

Everything comes from this server. `blob:` is how Streamlit loads a component's script and how pictures are saved; its
protocol decoder is WebAssembly; styles are inline throughout Streamlit; its page has one inline script, allowed by its hash.
"""

import base64
import hashlib
import re
from pathlib import Path

import streamlit
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class ResponseHeaders:
    """Adds `security_headers` to every HTTP response of `app`, in place of any of the same name."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.headers = security_headers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self.headers)
            await send(message)

        await self.app(scope, receive, send_with_headers if scope["type"] == "http" else send)


def security_headers() -> dict[str, str]:
    """Return the headers of every response, by name."""
    page = Path(streamlit.__file__).with_name("static") / "index.html"
    scripts = " ".join(inline_script_hashes(page.read_text("utf-8")))
    policy = {
        "default-src": "'self'",
        "script-src": f"'self' blob: 'wasm-unsafe-eval' {scripts}",
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data: blob:",
        "font-src": "'self' data:",
        "worker-src": "'self' blob:",
        "frame-src": "'none'",
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
