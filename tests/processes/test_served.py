"""The served app: no call leaves the machine, foreign pages are refused, and one session's nonsense affects no other."""

import asyncio
import http.client
import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from models.hub.sizes import MAX_HUB_TOKENS
from tests.benchmarks.clients import Client
from tests.benchmarks.serving import APP, served
from tests.robustness import load
from viz_app.drawing.payload import unpack
from viz_app.session.live_route import PROTOCOL, SOCKETS

PATIENCE = 240  # s, on a busy machine
# Loaded by the server's Python before anything else: it logs every call to another machine, and blocks it.
WATCH = """
import os, socket
def watch(name):
    own = getattr(socket.socket, name)
    def call(self, *given):
        to = next((x for x in reversed(given) if isinstance(x, tuple)), None)
        if to and str(to[0]) not in ("localhost", "127.0.0.1", "::1"):
            note(f"{name} {to}")
        return own(self, *given)
    setattr(socket.socket, name, call)
def note(what):
    with open(os.environ["CALLS"], "a") as file:
        print(what, file=file)
    raise OSError(f"a call that leaves the machine: {what}")
def look_up(host, *given, _own=socket.getaddrinfo, **named):
    return _own(host, *given, **named) if host in (None, "localhost", "127.0.0.1", "::1") else note(f"look up {host}")
for name in ("connect", "connect_ex", "sendto"):
    watch(name)
socket.getaddrinfo = look_up
"""


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("calls") / "calls"


@pytest.fixture(scope="module")
def address(calls: Path) -> Iterator[str]:
    """The address of the app, served by a process that may call no other machine."""
    calls.with_name("sitecustomize.py").write_text(WATCH)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CALLS", str(calls))
        patch.setenv(
            "PYTHONPATH", os.pathsep.join([str(calls.parent), os.environ.get("PYTHONPATH", "")])
        )
        with served(APP) as address:
            yield address


def status(address: str, path: str, **headers: str) -> int:
    connection = http.client.HTTPConnection(address, timeout=PATIENCE)
    connection.request("GET", path, headers=headers)
    return connection.getresponse().status


async def refused(url: str, **how: object) -> bool:
    try:
        async with connect(url, **how):
            return False
    except InvalidStatus as error:
        return error.response.status_code == 403


@pytest.mark.slow
def test_a_page_with_a_long_text_in_its_address_is_loaded_again(address: str) -> None:
    """The text has many times as many letters, of nine bytes each, as a model reads tokens."""
    assert status(address, f"/?text={quote('字' * 6 * MAX_HUB_TOKENS)}") == 200


def test_the_log_notices_a_call(calls: Path, tmp_path: Path) -> None:
    seen: dict = {
        "os": os,
        "socket": type("socket", (), {"socket": type("socket", (), {}), "getaddrinfo": None}),
    }
    for name in ("connect", "connect_ex", "sendto"):
        setattr(seen["socket"].socket, name, lambda self, *given: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CALLS", str(tmp_path / "calls"))
        exec(WATCH.replace("import os, socket", ""), seen)
        with pytest.raises(OSError, match="8.8.8.8"):
            seen["socket"].socket().connect(("8.8.8.8", 1))
        with pytest.raises(OSError, match="checkip"):
            seen["socket"].getaddrinfo("checkip.example", 80)
        seen["socket"].socket().connect(("127.0.0.1", 1))
    assert (tmp_path / "calls").read_text().splitlines() == [
        "connect ('8.8.8.8', 1)",
        "look up checkip.example",
    ]


def test_no_call_leaves_the_machine_whatever_is_requested(address: str, calls: Path) -> None:
    host, port = address.split(":")
    foreign = [
        {"Origin": "http://evil.example"}, {"Origin": f"http://{host}:1"}, {"Origin": "null"}, {"Host": f"evil.example:{port}"},
        {"Host": f"evil.example:{port}", "Origin": f"http://evil.example:{port}"},
    ]  # fmt: skip
    for path in (
        "/",
        "/decoding",
        "/_stcore/health",
        "/_stcore/host-config",
        "/_stcore/stream",
        "/live",
        "/no-such-page",
    ):
        assert [status(address, path, **headers) for headers in foreign] == [404] * len(foreign)
    for path in ("/", "/_stcore/health", "/_stcore/host-config"):
        assert status(address, path) == status(address, path, Origin=f"http://{address}") == 200
    assert status(address, "/_stcore/metrics") == status(address, "/_stcore/upload_file/a/b") == 404

    async def over_both_sockets() -> None:
        client = await start_session(address)
        for path, offered in (
            ("_stcore/stream", ["streamlit"]),
            ("live", [PROTOCOL, client.token]),
        ):
            url = f"ws://{address}/{path}"
            for headers in foreign[:3]:
                assert await refused(url, subprotocols=offered, origin=headers["Origin"])
            for headers in foreign[3:]:
                assert await refused(
                    f"ws://evil.example:{port}/{path}",
                    subprotocols=offered,
                    host=host,
                    port=int(port),
                    **({"origin": headers["Origin"]} if "Origin" in headers else {}),
                )
            async with connect(url, subprotocols=offered, origin=f"http://{address}"):
                pass
        await client.edit("Tom has a dog.")
        await end_session(client)

    asyncio.run(over_both_sockets())
    assert not calls.exists(), calls.read_text()


async def start_session(address: str) -> Client:
    """Start a session with its page and its live socket."""
    client = Client(
        1,
        address,
        await connect(f"ws://{address}/_stcore/stream", subprotocols=["streamlit"], max_size=None),
    )
    await client.arrive()
    return client


async def end_session(client: Client) -> None:
    await client.live.close()
    await client.socket.close()


async def closes_socket(socket: object, message: str | bytes) -> bool:
    """Return whether the server closes this socket at this message, without an answer."""
    await socket.send(message)
    try:
        await asyncio.wait_for(socket.recv(), PATIENCE)
    except ConnectionClosed:
        return True
    return False


def test_nonsense_closes_its_own_socket_and_no_other(address: str) -> None:
    async def ask() -> None:
        one, other = await start_session(address), await start_session(address)
        for nonsense in (
            b"\x00\xff",
            b"",
            "",
            "[" * 100_000,
            '{"texts": [1, ""]}',
            "x" * 1_000_001,
        ):
            async with await one.open() as socket:
                assert await closes_socket(socket, nonsense)
            await other.edit("Tom has two dogs.")
        await one.edit("Tom has a cat.")
        await end_session(one)
        await end_session(other)

    asyncio.run(ask())


def test_half_a_character_is_answered(address: str) -> None:
    async def ask() -> None:
        client = await start_session(address)
        await client.live.send(json.dumps({"texts": ["I like \ud83d", "\udc00"]}))
        header, arrays = unpack(await client.live.recv())
        assert dict(header["plain"]["written"]["rows"])["source"] == "I like \ufffd"
        assert "head" in arrays
        await end_session(client)

    asyncio.run(ask())


def test_a_session_has_few_sockets_and_strangers_none(address: str) -> None:
    async def ask() -> None:
        client, other = await start_session(address), await start_session(address)
        url = f"ws://{address}/live"
        for offered in (None, [PROTOCOL], [PROTOCOL, "guessed"], [PROTOCOL, client.token[:-1]]):
            assert await refused(url, subprotocols=offered)
        more = [await client.open() for _ in range(SOCKETS - 1)]
        for _ in range(100):
            assert await refused(url, subprotocols=[PROTOCOL, client.token])
        await client.edit("Tom has a dog.")
        await other.edit("Tom has a cat.")
        for socket in more:
            await socket.close()
        async with await client.open():  # there is room again
            pass
        await end_session(client)
        await end_session(other)

    asyncio.run(ask())


@pytest.mark.slow
def test_under_load_and_beside_nonsense_everyone_gets_their_own(address: str) -> None:
    """The short form of `python -m tests.robustness.load`."""
    found = load.count(address, n_clients=4, n_nuisances=1, seconds=3)
    assert found["wrong answers"] == 0
    assert (
        found["answers"] >= 2 * 4
    )  # one before the time starts and one when typing pauses, however many fit in between
    assert found["nonsense sent away"] >= 2 * len(load.NONSENSE)
