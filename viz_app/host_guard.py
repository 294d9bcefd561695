"""Middleware that rejects requests with a foreign `Host` or `Origin`, for all routes of the server.

A foreign web page can make a browser call this machine, but the browser names that page in
`Origin`. A page whose domain was made to resolve to this machine (DNS rebinding) passes as
same-origin, but still names its domain in `Host`. So both have to be names of this server, known
from the start. Starlette's TrustedHostMiddleware looks at `Host` alone. Streamlit checks origins,
too, and looks up this machine's public address on the internet to do so; it never gets to check
one, because an accepted origin is removed from the request.
"""

import ipaddress
import os
import re
import socket
from collections.abc import Iterable

import streamlit as st
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from viz_app import workers
from viz_app.session import routes

# environment variable: additional names of this server, separated by commas
ALLOWED = "ATTNSCOPE_ALLOW_HOST"
LOCAL = ("localhost", "127.0.0.1", "::1")
EVERYWHERE = ("", "0.0.0.0", "::")  # wildcard addresses
# Streamlit routes that the app does not use
CLOSED = (
    "/_stcore/metrics",
    "/_stcore/upload_file",
    "/_stcore/agent",
    "/_stcore/script-health-check",
    "/app/static",
    "/auth",
    "/component",
    "/oauth2callback",
)


class HostGuard:
    """ASGI middleware that passes requests whose host and origin are known.

    The host must be one of `names` or, with `allows_ip`, any IP address, which no domain can
    resolve to as a name; the origin must be the same host and port, or a name in `proxy_names`.
    """

    def __init__(
        self,
        app: ASGIApp,
        names: Iterable[str],
        proxy_names: Iterable[str] = (),
        allows_ip: bool = False,
    ) -> None:
        self.app = app
        self.proxy_names = {name.lower() for name in proxy_names}
        self.names = {name.lower() for name in names} | self.proxy_names
        self.allows_ip = allows_ip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            if not self._knows(Headers(scope=scope)) or _is_closed(scope["path"]):
                await _refuse(scope, receive, send)
                return
            scope = {
                **scope,
                "headers": [(name, value) for name, value in scope["headers"] if name != b"origin"],
            }
        await self.app(scope, receive, send)

    def _knows(self, headers: Headers) -> bool:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or len(origins) > 1 or not self._is_ours(_name(hosts[0])):
            return False
        netlocs = [_netloc(origin) for origin in origins]
        return all(
            netloc == hosts[0].lower() or _name(netloc) in self.proxy_names for netloc in netlocs
        )

    def _is_ours(self, name: str) -> bool:
        return name in self.names or (self.allows_ip and _is_number(name))


def settings() -> dict[str, object]:
    """Return the arguments of HostGuard for this server: its address and additional names."""
    address = os.environ.get(workers.ADDRESS) or st.get_option("server.address") or ""
    proxy_names = [name.strip() for name in os.environ.get(ALLOWED, "").split(",") if name.strip()]
    everywhere = address in EVERYWHERE
    return {
        "names": [*LOCAL, socket.gethostname() if everywhere else address],
        "proxy_names": proxy_names,
        "allows_ip": everywhere,
    }


def _name(host: str) -> str:
    """Return the lower-case host name of a `Host` header; "" if it is malformed."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([\w.-]+))(?::\d{1,5})?", host)
    return (match[1] or match[2]).lower() if match else ""


def _netloc(origin: str) -> str:
    """Return the host and port of a page's origin; "" if it is not http(s)."""
    scheme, _, netloc = origin.partition("://")
    return netloc.lower() if scheme in ("http", "https") else ""


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_closed(path: str) -> bool:
    inner = f"{path.removeprefix(routes.base_path())}/"
    return inner.startswith(tuple(f"{route}/" for route in CLOSED))


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": ""})
        return
    await PlainTextResponse("There is nothing here.", 404)(scope, receive, send)
