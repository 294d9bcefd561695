"""Limits of a session: texts of bounded length, two downloads at a time, links that end with it."""

import asyncio
import gc
import json
from collections.abc import Callable, Iterator

import pytest
import streamlit as st
from app_parts import app_at, said
from drawn import letters
from streamlit.testing.v1 import AppTest

from models import InputError
from models.architectures.encoder_decoder import EncoderDecoder
from viz_app.drawing.stamp import FileContent
from viz_app.session import downloads, live_route
from viz_app.session.downloads import Download
from viz_app.session.parameters import MAX_TEXT_LENGTH, Text
from viz_app.session.shortening import shortening_offer
from viz_app.session.url_state import parameter_of

SOURCE = parameter_of(EncoderDecoder.fields[0])


def open_page(page: str = "") -> AppTest:
    return app_at(checkpoint="dates")


def test_a_text_that_is_too_long_is_cut_with_a_note_until_another_is_typed() -> None:
    app = open_page()
    app.text_area(key="source").set_value("x" * (MAX_TEXT_LENGTH + 1)).run()
    assert len(app.text_area(key="source").value) == MAX_TEXT_LENGTH
    kept = app.session_state["url"].values["source"]
    assert len(kept) == MAX_TEXT_LENGTH
    note = said(app, "note source")
    assert note["look"] == "note bad"
    assert "200,000 characters long, not 200,001" in note["rows"][0][1]
    app.text_area(key="source").set_value("3 May 1999").run()
    assert said(app, "note source")["look"] == "note"


def test_shortening_keeps_all_that_fits_and_shows_the_cut() -> None:
    scope, text = letters("gpt", n_ctx=9), "abcdeedcbaabc"
    field = scope.model.text_fields[0]
    offer = shortening_offer(scope, (text, ""), field)
    keep = offer["keep"]
    assert len(scope.encode(text[:keep], None)[field.stream].ids) == 9
    assert (offer["offer"], offer["rest"]) == ("Use the first 9 tokens", f"“{text[keep:]}”")
    assert shortening_offer(scope, (text[:keep], ""), field) == {}


def test_the_address_and_the_socket_accept_no_longer_texts() -> None:
    fits, long = "x" * MAX_TEXT_LENGTH, "x" * (MAX_TEXT_LENGTH + 1)
    assert SOURCE.from_url([fits]) == fits
    assert "200,000" in SOURCE.why_invalid([long])
    assert Text("only here").from_url([long]) == ""
    message = {"type": "websocket.receive"}
    assert live_route._texts(message | {"text": json.dumps({"texts": [fits]})}) == (fits,)
    assert live_route._texts(message | {"text": json.dumps({"texts": [long]})}) is None


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict]:
    """Return the state of a session in its server."""
    state: dict = {}
    monkeypatch.setattr(st, "session_state", state)
    yield state
    assert not downloads._running


def address(make: Callable[[], FileContent] = lambda: iter(["1"] * 99)) -> str:
    """Return the address of a file with this content."""
    return downloads.download_address(Download("label", "a.csv", make, dict))


async def answer(url: str, method: str = "GET") -> tuple[int, str]:
    """Download a file; return the status and the text of the answer."""
    sent = await messages(url, method)
    return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:]).decode()


async def status(url: str, method: str = "GET") -> int:
    return (await messages(url, method))[0]["status"]


async def messages(url: str, method: str) -> list[dict]:
    """Download a file; return the messages that the server sends."""
    sent: list[dict] = []

    async def send(message: dict) -> None:
        sent.append(message)

    async def receive() -> dict:
        await asyncio.Event().wait()

    (route,) = downloads.download_routes()
    scope = {"type": "http", "method": method, "path": url, "headers": [], "query_string": b"", "root_path": ""}  # fmt: skip
    await route.handle(scope | route.matches(scope)[1], receive, send)
    return sent


def test_a_session_downloads_two_files_at_a_time(served: dict) -> None:
    async def ten(url: str) -> list[int]:
        return await asyncio.gather(*(status(url) for _ in range(10)))

    url = address()
    assert sorted(asyncio.run(ten(url))) == [200] * 2 + [429] * 8
    assert asyncio.run(status(url)) == 200  # once they have arrived, more can be downloaded


def test_another_session_has_its_own_two(served: dict) -> None:
    async def both(*urls: str) -> list[int]:
        return await asyncio.gather(*(status(url) for url in urls))

    mine = address()
    first = dict(served)
    served.clear()
    other = address()
    assert asyncio.run(both(mine, mine, mine, other, other, other)) == [200, 200, 429] * 2
    assert first


def test_a_file_that_breaks_off_is_no_longer_counted(served: dict) -> None:
    def broken() -> Iterator[str]:
        yield "1"
        raise RuntimeError("the model is gone")

    url = address(broken)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="the model is gone"):
            asyncio.run(status(url))


def test_a_model_that_cannot_run_gives_an_error_instead_of_the_file(served: dict) -> None:
    def refused() -> str:
        raise InputError("the text has 70 tokens, and the model reads 64", "source")

    url = address(refused)
    for _ in range(3):
        code, text = asyncio.run(answer(url))
        assert (code, "reads 64" in text) == (422, True)


def test_an_address_stays_valid_and_sends_the_latest_file(served: dict) -> None:
    first, second = address(lambda: "old"), address(lambda: "new")
    assert first == second
    assert asyncio.run(answer(first)) == (200, "new")


def test_a_file_is_made_only_when_it_is_downloaded(served: dict) -> None:
    url = address(lambda: pytest.fail("made"))
    assert asyncio.run(status(url, "HEAD")) == 405


def test_a_link_ends_with_its_session(served: dict) -> None:
    url = address()
    assert asyncio.run(status(url)) == 200
    served.clear()
    gc.collect()
    assert asyncio.run(status(url)) == 404
