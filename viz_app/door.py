"""Who may come in: a layer in front of everything the server answers, Streamlit's own pages and socket among it.

A browser that shows somebody else's web page calls this machine if that page says so, and names the page in `Origin`. A page
whose domain was made to point here (DNS rebinding) passes for ours, but still names its domain in `Host`. So both have to be
names of this server, known from the start. Streamlit, too, looks at foreign origins, and asks the internet for this machine's
address to do so: it never gets to see one, because an origin that was found right is taken off the request.
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

ALLOWED = (
    "ATTNSCOPE_ALLOW_HOST"  # environment variable: more names of this server, with commas between
)
LOCAL = ("localhost", "127.0.0.1", "::1")
EVERYWHERE = ("", "0.0.0.0", "::")  # addresses that stand for all of a machine's
# routes of Streamlit that the app has no use for
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


class Door:
    """Lets in who comes by one of the `names`, or, if `numbers`, by any address in figures, which no domain can point at;
    and with an origin that is the same host and port, or one of the names `behind` a proxy."""

    def __init__(
        self, app: ASGIApp, names: Iterable[str], behind: Iterable[str] = (), numbers: bool = False
    ) -> None:
        self.app = app
        self.behind = {name.lower() for name in behind}
        self.names = {name.lower() for name in names} | self.behind
        self.numbers = numbers

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
        places = [_place(origin) for origin in origins]
        return all(place == hosts[0].lower() or _name(place) in self.behind for place in places)

    def _is_ours(self, name: str) -> bool:
        return name in self.names or (self.numbers and _is_number(name))


def known() -> dict[str, object]:
    """What Door is told of this server: where it listens, and by which names it is called besides."""
    address = st.get_option("server.address") or ""
    behind = [name.strip() for name in os.environ.get(ALLOWED, "").split(",") if name.strip()]
    everywhere = address in EVERYWHERE
    return {
        "names": [*LOCAL, socket.gethostname() if everywhere else address],
        "behind": behind,
        "numbers": everywhere,
    }


def _name(host: str) -> str:
    """The name in what stands in `Host`, in small letters; "" if that is not a plain name or address and perhaps a port."""
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([\w.-]+))(?::\d{1,5})?", host)
    return (found[1] or found[2]).lower() if found else ""


def _place(origin: str) -> str:
    """The host and port of a page's origin; "" if it is none of the web's."""
    scheme, _, place = origin.partition("://")
    return place.lower() if scheme in ("http", "https") else ""


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_closed(path: str) -> bool:
    base = st.get_option("server.baseUrlPath").strip("/")
    inner = f"{path.removeprefix(f'/{base}' if base else '')}/"
    return inner.startswith(tuple(f"{route}/" for route in CLOSED))


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": ""})
        return
    await PlainTextResponse("There is nothing here.", 404)(scope, receive, send)
