"""Security headers: on every response of the server, and strict enough to be useful."""

import asyncio

import pytest

from viz_app.response_headers import ResponseHeaders, inline_script_hashes, security_headers


def answer(kind: str, *headers: tuple[bytes, bytes]) -> list[dict]:
    """Return the message sent when the app behind it answers with these headers."""
    sent: list[dict] = []

    async def app(scope: dict, receive: object, send) -> None:
        start = "http.response.start" if kind == "http" else "websocket.accept"
        await send({"type": start, "status": 200, "headers": list(headers)})

    async def send(message: dict) -> None:
        sent.append(message)

    asyncio.run(ResponseHeaders(app)({"type": kind, "headers": []}, None, send))
    return sent


def test_every_answer_has_them_once() -> None:
    (start,) = answer("http", (b"content-type", b"text/html"), (b"referrer-policy", b"unsafe-url"))
    headers = [(name.decode(), value.decode()) for name, value in start["headers"]]
    assert headers[0] == ("content-type", "text/html")
    assert dict(headers[1:]) == {k.lower(): v for k, v in security_headers().items()}
    assert len(headers) == 1 + len(security_headers())


def test_a_websocket_is_left_alone() -> None:
    assert answer("websocket", (b"a", b"b"))[0]["headers"] == [(b"a", b"b")]


@pytest.fixture
def policy() -> dict[str, list[str]]:
    parts = security_headers()["Content-Security-Policy"].split("; ")
    return {name: sources for name, *sources in map(str.split, parts)}


def test_no_foreign_source_is_allowed_and_nothing_is_evaluated(policy) -> None:
    sources = {source for sources in policy.values() for source in sources}
    assert not [s for s in sources if s in ("*", "http:", "https:", "'unsafe-eval'") or "//" in s]
    assert "'unsafe-inline'" not in policy["script-src"]
    assert "data:" not in policy["script-src"]
    assert policy["frame-ancestors"] == policy["default-src"] == ["'self'"]
    assert policy["object-src"] == ["'none'"]


def test_the_inline_scripts_of_the_entry_page_are_allowed_by_their_hashes(policy) -> None:
    """The digest of `alert(1)` is the one in MDN's example of the header."""
    page = '<script>alert(1)</script><script src="x.js"></script><script>\n two\n</script>'
    known, other = inline_script_hashes(page)
    assert known == "'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='"
    assert other != known
    assert sum(source.startswith("'sha256-") for source in policy["script-src"]) == 3
