"""The guard at the door: accepted host names and origins, closed parts of Streamlit, and no call that leaves the machine."""

import asyncio
from pathlib import Path

import pytest
import streamlit as st
from toml_files import tomllib

from viz_app import host_guard
from viz_app.host_guard import HostGuard

NAMES = {"names": [*host_guard.LOCAL, "192.168.7.5"], "proxy_names": ["Attn.Example.org"]}
STREAM, LIVE, PAGE = "/_stcore/stream", "/live", "/decoding"


class Inside:
    """An app behind the guard that records the requests it gets."""

    def __init__(self) -> None:
        self.came: list[dict] = []

    async def __call__(self, scope: dict, receive: object, send: object) -> None:
        self.came.append(scope)


def is_let_in(path: str, *headers: tuple[str, str], **known: object) -> bool:
    """Return whether a request is let in; if so, its origin must be gone. A refusal must still be answered."""
    inside, sent = Inside(), []
    raw = [
        (name.encode(), value.encode("latin-1")) for name, value in (*headers, ("accept", "*/*"))
    ]
    kind = "websocket" if path in (STREAM, LIVE) else "http"

    async def send(message: dict) -> None:
        sent.append(message)

    asyncio.run(
        HostGuard(inside, **(known or NAMES))(
            {"type": kind, "path": path, "headers": raw, "method": "GET"}, None, send
        )
    )
    if inside.came:
        assert not sent
        assert [name for name, _ in inside.came[0]["headers"]] == [
            n.encode() for n, _ in headers if n != "origin"
        ] + [b"accept"]
    elif kind == "websocket":
        assert [m["type"] for m in sent] == ["websocket.close"]
    else:
        assert sent[0]["status"] == 404
        assert sent[1]["body"] == b"There is nothing here."
    return bool(inside.came)


def from_page(host: str, origin: str) -> tuple[tuple[str, str], ...]:
    return ("host", host), ("origin", origin)


@pytest.mark.parametrize("path", [STREAM, LIVE, PAGE])
@pytest.mark.parametrize(
    "host",
    [
        "localhost:8501",
        "localhost",
        "LOCALHOST:1",
        "127.0.0.1:8501",
        "[::1]:8501",
        "192.168.7.5:80",
        "attn.example.org",
    ],
)
def test_its_own_names_are_let_in_at_any_port(path: str, host: str) -> None:
    assert is_let_in(path, ("host", host))
    assert is_let_in(path, *from_page(host, f"http://{host}"))


@pytest.mark.parametrize("path", [STREAM, LIVE, PAGE])
@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8501", "localhost.evil.example", "evil.example/localhost", "localhost@evil.example",
        "user@localhost", "localhost:x", "localhost:999999", "", " ", "192.168.7.6", "8.8.8.8", "[::2]", "[::1", "localhost,evil",
        "localhost/..", "localhost?", "localhost#", "xn--localhost", "127.0.0.1.evil.example", "ATTN.example.org.evil",
    ],
)  # fmt: skip
def test_another_name_is_refused(path: str, host: str) -> None:
    assert not is_let_in(path, ("host", host))
    assert not is_let_in(
        path, *from_page(host, f"http://{host}")
    )  # a domain that was made to point here


def test_no_name_and_two_names_are_refused() -> None:
    assert not is_let_in(PAGE)
    assert not is_let_in(PAGE, ("host", "localhost"), ("host", "localhost"))
    assert not is_let_in(
        PAGE, ("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://localhost")
    )


@pytest.mark.parametrize("path", [STREAM, LIVE, PAGE])
@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example", "http://localhost:3000", "http://localhost", "http://127.0.0.1:8501", "null", "", "localhost:8501",
        "file://", "ftp://localhost:8501", "http://localhost:8501.evil.example", "http://evil.example/http://localhost:8501",
        "http://user@localhost:8501", "http://[", "http://192.168.7.5:8501", "chrome-extension://localhost:8501",
    ],
)  # fmt: skip
def test_a_request_from_a_foreign_page_is_refused(path: str, origin: str) -> None:
    assert not is_let_in(path, *from_page("localhost:8501", origin))


@pytest.mark.parametrize(
    "origin",
    ["https://attn.example.org", "https://ATTN.example.org:8443", "http://attn.example.org"],
)
def test_a_proxys_name_may_stand_before_another_host(origin: str) -> None:
    assert is_let_in(LIVE, *from_page("127.0.0.1:8501", origin))
    assert not is_let_in(LIVE, *from_page("127.0.0.1:8501", origin), names=host_guard.LOCAL)


def test_when_it_listens_everywhere_every_numeric_address_is_its_own() -> None:
    for host in ("10.1.2.3:8501", "[fe80::1]:8501", "8.8.8.8"):
        assert is_let_in(
            LIVE, *from_page(host, f"http://{host}"), names=host_guard.LOCAL, allows_ip=True
        )
        assert not is_let_in(
            LIVE, *from_page(host, "http://10.9.9.9"), names=host_guard.LOCAL, allows_ip=True
        )
    assert not is_let_in(
        LIVE,
        *from_page("evil.example", "http://evil.example"),
        names=host_guard.LOCAL,
        allows_ip=True,
    )


@pytest.mark.parametrize(
    "path",
    [
        "/_stcore/metrics",
        "/_stcore/upload_file/a/b",
        "/_stcore/agent/interact",
        "/_stcore/agent/openapi.json",
        "/_stcore/script-health-check",
        "/app/static/app.py",
        "/auth/login",
        "/auth/logout",
        "/component/streamlit.x/index.html",
        "/oauth2callback",
    ],
)
def test_parts_of_streamlit_that_the_app_does_not_use_are_closed(path: str) -> None:
    assert not is_let_in(path, ("host", "localhost:8501"))
    for open_path in ("/_stcore/health", "/_stcore/bidi-components/a", "/attention", "/authors"):
        assert is_let_in(open_path, ("host", "localhost:8501"))


def test_no_foreign_origin_steers_the_app() -> None:
    """Streamlit tells the page which origins' messages to obey, by default those of Streamlit Cloud."""
    config = Path(host_guard.__file__).parent / ".streamlit" / "config.toml"
    assert tomllib.loads(config.read_text("utf-8"))["client"]["allowedOrigins"] == []


def settings(monkeypatch: pytest.MonkeyPatch, **options: str) -> None:
    own = {"address": "localhost", "baseUrlPath": "", **options}
    monkeypatch.setattr(st, "get_option", lambda name: own[name.removeprefix("server.")])


def test_it_is_closed_under_another_path_too(monkeypatch: pytest.MonkeyPatch) -> None:
    settings(monkeypatch, baseUrlPath="/tools/attn/")
    assert not is_let_in("/tools/attn/_stcore/metrics", ("host", "localhost"))
    assert is_let_in("/tools/attn/_stcore/health", ("host", "localhost"))


def test_the_names_are_those_of_where_it_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    settings(monkeypatch)
    assert host_guard.settings() == {
        "names": [*host_guard.LOCAL, "localhost"],
        "proxy_names": [],
        "allows_ip": False,
    }
    monkeypatch.setenv(host_guard.ALLOWED, "attn.example.org, other.example.org,")
    settings(monkeypatch, address="192.168.7.5")
    own = {
        "names": [*host_guard.LOCAL, "192.168.7.5"],
        "proxy_names": ["attn.example.org", "other.example.org"],
        "allows_ip": False,
    }
    assert host_guard.settings() == own
    monkeypatch.setattr(host_guard.socket, "gethostname", lambda: "workbench")
    for address in ("0.0.0.0", "::", ""):
        settings(monkeypatch, address=address)
        assert host_guard.settings() == own | {
            "names": [*host_guard.LOCAL, "workbench"],
            "allows_ip": True,
        }
