"""Several server processes behind one port: routing of requests, and the bytes that are passed on."""

import asyncio
import socket
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import quote

import pytest
import uvicorn

from models.hub.sizes import MAX_HUB_TOKENS
from viz_app import workers
from viz_app.bounds import MAX_HEAD
from viz_app.workers import RequestHead, cookie, new_token

Result = TypeVar("Result")


def head(*lines: str) -> bytes:
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


def run(
    work: Coroutine[Any, Any, Result],
    in_loop: Callable[[Coroutine[Any, Any, Result]], Result] = asyncio.run,
) -> Result:
    """Run in an event loop of another thread: Playwright's may run in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(in_loop, work).result()


@pytest.fixture
def third(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(workers.WORKER_VARIABLE, "2")


def test_a_session_token_names_its_worker_wherever_it_is_sent(third: None) -> None:
    token = new_token()
    assert len({new_token() for _ in range(100)}) == 100
    for lines in (
        ("GET /live HTTP/1.1", f"Sec-WebSocket-Protocol: attnscope, {token}", "Upgrade: websocket"),
        (f"GET /file/{token} HTTP/1.1", "Host: localhost"),
        (f"GET /base/file/{token} HTTP/1.1", "Cookie: attnscope_worker=0"),
        ("GET /opening/3 HTTP/1.1", f"authorization: Bearer {token}"),
    ):
        assert RequestHead(head(*lines)).worker == 2


def test_a_page_comes_back_to_its_worker_by_the_cookie(third: None) -> None:
    given = cookie()["Set-Cookie"].split(";")[0]
    assert RequestHead(head("GET / HTTP/1.1", f"Cookie: a=1; {given}; b=2")).worker == 2
    assert RequestHead(head("GET / HTTP/1.1", f"Cookie: {given}")).worker == 2
    assert "HttpOnly" in cookie()["Set-Cookie"]
    assert "SameSite=Lax" in cookie()["Set-Cookie"]


def test_one_process_alone_sets_no_cookie(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(workers.WORKER_VARIABLE, raising=False)
    assert cookie() == {}


@pytest.mark.parametrize(
    "line",
    [
        "Cookie: not_attnscope_worker=1",
        "Cookie: attnscope_worker=1x",
        "Cookie: attnscope_worker=-1",
        "Cookie: a=attnscope_worker=1",
        "Referer: http://localhost/file/1.AAAAAAAAAAAAAAAAAAAAAA",
        "Sec-WebSocket-Protocol: streamlit, 2, 6b1e0b5e-17ad-4a63-a1cd-7b4dbe3b4f60",
        "Authorization: Bearer 1.AAAAAAAAAAAAAAAAAAAAAAA",  # one letter longer than a token
    ],
)
def test_nothing_else_names_a_worker(line: str) -> None:
    assert RequestHead(head("GET /?v=1.2 HTTP/1.1", line)).worker is None


def test_a_plain_request_ends_its_connection_and_a_socket_keeps_it() -> None:
    plain = RequestHead(
        head("GET / HTTP/1.1", "Connection: keep-alive", "CONNECTION: x", "Host: a")
    )
    assert plain.head == head("GET / HTTP/1.1", "Host: a", "Connection: close")
    opening = head("GET /live HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket")
    assert RequestHead(opening).head == opening
    other = RequestHead(head("GET / HTTP/1.1", "Connection: Upgrade", "Upgrade: h2c", "Host: a"))
    assert other.head == head("GET / HTTP/1.1", "Host: a", "Connection: close")


@pytest.mark.parametrize(
    "bad",
    [
        b"\r\n\r\n",
        b"GET /\r\n\r\n",
        b"\x16\x03\x01 tls\r\n\r\n",
        head("GET / HTTP/1.1", "Connection: a", " close"),
        head("GET / HTTP/1.1", "Cookie: a", "\tattnscope_worker=1"),
    ],
)
def test_a_malformed_head_is_refused(bad: bytes) -> None:
    with pytest.raises(ValueError, match="not the head"):
        RequestHead(bad)


class _Front(workers._Front):
    """A front whose workers are ports on which a test listens."""

    def __init__(self, *ports: int) -> None:
        super().__init__(len(ports), "localhost", 0, [])
        for worker, port in zip(self.workers, ports, strict=True):
            worker.port = port
            worker.ready.set()


async def _exchange(sent: bytes, *, limit: int = MAX_HEAD) -> tuple[bytes, list[bytes]]:
    """Send bytes to a front with one echoing worker; return what came back and what the worker received."""
    got: list[bytes] = []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"answer")
        writer.close()

    worker = await asyncio.start_server(echo, "127.0.0.1", 0, limit=MAX_HEAD)
    front = _Front(worker.sockets[0].getsockname()[1])
    served = await asyncio.start_server(front._connected, "127.0.0.1", 0, limit=limit)
    reader, writer = await asyncio.open_connection(*served.sockets[0].getsockname())
    writer.write(sent)
    answer = await reader.read()
    writer.close()
    served.close()
    worker.close()
    while front.workers[0].connections:  # both directions end soon
        await asyncio.sleep(0.001)
    return answer, got


def test_bytes_are_passed_on_and_a_second_request_never_reaches_a_worker() -> None:
    first, second = head("GET /a HTTP/1.1"), head("GET /b HTTP/1.1")
    answer, got = run(_exchange(first + second))
    assert answer == b"answer"
    assert got == [head("GET /a HTTP/1.1", "Connection: close")]


def test_an_address_with_a_long_text_is_passed_on() -> None:
    text = quote("字" * 6 * MAX_HUB_TOKENS)
    answer, got = run(_exchange(head(f"GET /?text={text} HTTP/1.1")))
    assert answer == b"answer"
    assert got == [head(f"GET /?text={text} HTTP/1.1", "Connection: close")]


def test_a_head_too_long_or_malformed_is_answered_by_the_front() -> None:
    for bad in (b"GET /" + b"a" * MAX_HEAD, head("nonsense")):
        answer, got = run(_exchange(bad))
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert not got


def test_a_head_that_never_ends_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_PATIENCE", 0.05)
    assert run(_exchange(b"GET / HTTP/1.1\r\n")) == (b"", [])


def test_a_missing_worker_is_reported() -> None:
    async def ask() -> bytes:
        front = _Front(_closed_port())
        served = await asyncio.start_server(front._connected, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*served.sockets[0].getsockname())
        writer.write(head("GET / HTTP/1.1"))
        answer = await reader.read()
        writer.close()
        served.close()
        return answer

    assert run(ask()).startswith(b"HTTP/1.1 503 ")


def _closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class _Ended:
    """A process that has ended."""

    exitcode = 1

    def is_alive(self) -> bool:
        return False


def test_a_worker_that_fails_while_it_starts_again_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workers, "_PAUSE", 0)
    monkeypatch.setattr(workers, "_LOOK", 0)
    starts = 0

    class Running(_Ended):
        def is_alive(self) -> bool:
            return not worker.ready.is_set()

    class Worker(workers._Worker):
        def start(self) -> None:
            nonlocal starts
            starts += 1
            if starts == 5:
                raise InterruptedError
            self.process = Running() if starts == 1 else _Ended()

    async def answers(port: int) -> bool:
        return True

    monkeypatch.setattr(workers, "_answers", answers)
    worker = Worker(0, 1, "localhost", [])
    worker.start()
    with pytest.raises(InterruptedError):
        run(worker.watch())
    assert capsys.readouterr().err.count("is started again") == 4
    never = Worker(1, 1, "localhost", [])
    never.process = _Ended()
    with pytest.raises(ValueError, match="worker 1 did not start"):
        run(never.watch())


def test_newcomers_are_spread_and_known_ones_return() -> None:
    async def spread() -> tuple[list[int], int, int]:
        front = _Front(1, 2, 3)
        numbers = [front._worker(None).number for _ in range(30)]
        front.workers[0].connections = front.workers[1].connections = 20
        return numbers, front._worker(None).number, front._worker(1).number

    numbers, newcomer, known = run(spread())
    assert [numbers.count(n) for n in range(3)] == [10, 10, 10]
    assert newcomer == 2
    assert known == 1


def test_a_number_that_no_worker_has_is_a_newcomer() -> None:
    async def chosen() -> int:
        return _Front(1, 2)._worker(17).number

    assert run(chosen()) in (0, 1)


@pytest.mark.skipif(sys.platform == "win32", reason="uvloop is not there")
def test_small_files_are_sent_at_once():
    """On a socket like Streamlit's, asyncio's own loop leaves TCP_NODELAY off, and a file waits 40 ms."""

    async def option() -> int:
        accepted: asyncio.Future[asyncio.BaseTransport] = asyncio.get_running_loop().create_future()

        class Accepted(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                accepted.set_result(transport)

        listening = socket.socket(socket.AF_INET)
        listening.bind(("127.0.0.1", 0))
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Accepted, sock=listening)
        _, writer = await asyncio.open_connection(*listening.getsockname())
        connection = (await accepted).get_extra_info("socket")
        value = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        writer.close()
        server.close()
        return value

    loop = uvicorn.Config("").get_loop_factory()()
    try:
        assert run(option(), loop.run_until_complete)
    finally:
        loop.close()
