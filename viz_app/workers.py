"""Several server processes behind one port; a session always reaches its own process.

One Python process computes with little more than one core. The front process listens on the port,
reads the head of each connection's first request, picks the worker, and passes bytes from there on.
A session's token names its worker; a reloaded page finds its worker by a cookie; a
newcomer goes to the worker with the fewest connections.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
import secrets
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

from viz_app import bounds, common_folder

# environment variable: this process's number among the workers
WORKER_VARIABLE = "ATTNSCOPE_WORKER"
ADDRESS = "ATTNSCOPE_ADDRESS"  # environment variable: the address that the front listens on
WORKER_COOKIE = "attnscope_worker"
MAX_WORKERS = 64  # workers
_PATIENCE = 15.0  # s for a head to arrive and for a worker to be connected
_PIECE = 64 * 1024  # bytes passed on at a time
_LOOK = 0.25  # s between two looks at the workers
_PAUSE = 2.0  # s before a worker that ended while it started is started again
_ARRIVAL = 10.0  # s in which a newcomer's page opens its sockets
_TOKEN = re.compile(rb"(?<![\w.-])(\d{1,2})\.[\w-]{22}(?![\w.-])")
_CHOSEN = re.compile(rb"(?:^|;)\s*" + WORKER_COOKIE.encode() + rb"=(\d{1,2})\s*(?:;|$)")
_BAD = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_AWAY = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"


def new_token() -> str:
    """Return a new secret token, which names this process among the workers."""
    return f"{os.environ.get(WORKER_VARIABLE, '0')}.{secrets.token_urlsafe(16)}"


def cookie() -> dict[str, str]:
    """Return the header that brings a browser back to this worker; none without other workers."""
    number = os.environ.get(WORKER_VARIABLE)
    return (
        {"Set-Cookie": f"{WORKER_COOKIE}={number}; Path=/; HttpOnly; SameSite=Lax"}
        if number
        else {}
    )


class RequestHead:
    """The head of a request: where it goes, and the bytes that a worker gets.

    Unless it opens a WebSocket, the connection is closed after its answer: behind a proxy, the next
    request on the same connection may be another person's.

    Raises:
        ValueError: the head has no request line, or a line that continues the one before it.
    """

    def __init__(self, head: bytes) -> None:
        line, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
        if line.count(b" ") != 2 or any(text[:1] in (b" ", b"\t") for text in lines):
            raise ValueError("not the head of an HTTP request")
        headers = [(text.partition(b":")[0].strip().lower(), text) for text in lines]
        upgrade = b"websocket" in map(bytes.lower, _values(headers, b"upgrade"))
        self._named = [line, *_values(headers, b"sec-websocket-protocol", b"authorization")]
        self._cookies = _values(headers, b"cookie")
        forwarded = [
            text for name, text in headers if upgrade or name not in (b"connection", b"upgrade")
        ]
        closing = [] if upgrade else [b"Connection: close"]
        self.head = b"\r\n".join([line, *forwarded, *closing, b"", b""])

    @property
    def worker(self) -> int | None:
        """The number of the worker that it names by a session's token or by the cookie."""
        for pattern, texts in ((_TOKEN, self._named), (_CHOSEN, self._cookies)):
            for text in texts:
                if match := pattern.search(text):
                    return int(match[1])
        return None


def _values(headers: Sequence[tuple[bytes, bytes]], *names: bytes) -> list[bytes]:
    return [text.partition(b":")[2].strip() for name, text in headers if name in names]


def run_server(flags: Sequence[str]) -> int:
    """Serve the app in this process with these flags of Streamlit; returns the exit status."""
    from streamlit.web.cli import main as streamlit

    app = Path(__file__).with_name("server.py")
    return streamlit(["run", str(app), *flags], prog_name="attnscope", standalone_mode=False) or 0


def serve_app(n: int, address: str, port: int, flags: list[str], browser: bool) -> int:
    """Serve the app with n workers until Ctrl-C; returns the exit status.

    Raises:
        ValueError: the port is taken, or a worker does not start.
    """
    common_folder.common_folder()  # before the workers inherit its name
    try:
        from uvloop import run
    except ImportError:  # on Windows
        run = asyncio.run
    with suppress(KeyboardInterrupt):
        run(_Front(n, address, port, flags).serve(browser))
    return 0


class _Front:
    """The listening process, its workers, and how many connections each has."""

    def __init__(self, n: int, address: str, port: int, flags: list[str]) -> None:
        self.address, self.port, self.flags = address, port, flags
        self.workers = [_Worker(number, n, address, flags) for number in range(n)]
        self.arrivals: deque[tuple[float, _Worker]] = deque()

    async def serve(self, browser: bool) -> None:
        bounds.raise_file_limit()
        try:
            listening = await asyncio.start_server(
                self._connected, self.address or None, self.port, limit=bounds.MAX_HEAD
            )
        except OSError as error:
            raise ValueError(
                f"--port {self.port}: {os.strerror(error.errno or 0).lower()}"
            ) from error
        async with listening:
            try:
                for worker in self.workers:
                    worker.start()
                watching = (worker.watch() for worker in self.workers)
                await asyncio.gather(self._announce(browser), *watching)
            finally:
                for worker in self.workers:
                    worker.stop()

    async def _announce(self, browser: bool) -> None:
        for worker in self.workers:
            await worker.ready.wait()
        url = f"http://{_shown(self.address)}:{self.port}"
        print(f"\n  Attnscope, {len(self.workers)} workers: {url}\n", flush=True)
        if browser:
            from streamlit.cli_util import open_browser

            open_browser(url)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection to its worker, until either side ends it."""
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _PATIENCE)
            request = RequestHead(head)
        except (ValueError, asyncio.LimitOverrunError):
            await _end(writer, _BAD)
            return
        except (asyncio.TimeoutError, asyncio.IncompleteReadError, OSError):
            await _end(writer)
            return
        worker = self._worker(request.worker)
        worker.connections += 1
        try:
            await asyncio.wait_for(worker.ready.wait(), _PATIENCE)
            inward, outward = await asyncio.wait_for(
                asyncio.open_connection("127.0.0.1", worker.port), _PATIENCE
            )
            outward.write(request.head)
            await asyncio.gather(_pass_on(reader, outward), _pass_on(inward, writer))
        except (asyncio.TimeoutError, OSError):
            await _end(writer, _AWAY)
        finally:
            worker.connections -= 1

    def _worker(self, number: int | None) -> _Worker:
        """Return the worker of this number; for a newcomer, the least busy one."""
        if number is not None and number < len(self.workers):
            return self.workers[number]
        now = time.monotonic()
        while self.arrivals and now - self.arrivals[0][0] > _ARRIVAL:
            self.arrivals.popleft()
        arriving = [worker for _, worker in self.arrivals]
        least = min(self.workers, key=lambda w: max(w.connections, arriving.count(w)))
        self.arrivals.append((now, least))
        return least


class _Worker:
    """One server process, started again when it ends."""

    def __init__(self, number: int, n: int, address: str, flags: list[str]) -> None:
        self.number, self.port = number, _free_port()
        self.arguments = (number, n, address, [*flags, f"--server.port={self.port}"])
        self.connections = 0
        self.ready = asyncio.Event()
        self.process: BaseProcess | None = None

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.process = context.Process(target=_work, args=self.arguments)
        self.process.start()

    def stop(self) -> None:
        if self.process and self.process.is_alive():
            self.process.terminate()
            self.process.join(_PATIENCE)
            self.process.kill()

    async def watch(self) -> None:
        """Wait until the process answers, and start it again whenever it ends after that.

        Raises:
            ValueError: it ended before it had answered for the first time.
        """
        has_answered = False
        while True:
            while self.process.is_alive():
                if not self.ready.is_set() and await _answers(self.port):
                    self.ready.set()
                    has_answered = True
                await asyncio.sleep(_LOOK)
            if not has_answered:
                raise ValueError(f"worker {self.number} did not start; its error is above")
            code = self.process.exitcode
            print(
                f"attnscope: worker {self.number} ended ({code}) and is started again",
                file=sys.stderr,
            )
            if not self.ready.is_set():  # it ended while it started: not again at once
                await asyncio.sleep(_PAUSE)
            self.ready.clear()
            self.start()


def _work(number: int, n: int, address: str, flags: list[str]) -> None:
    """Serve the app in this process, on a port of its own that only the front connects to."""
    os.environ[WORKER_VARIABLE], os.environ[ADDRESS] = str(number), address
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // n)))
    threading.Thread(target=_end_with_front, daemon=True).start()
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches all processes; the front ends them
    from click import Abort

    with open(os.devnull, "w") as nowhere, suppress(Abort, KeyboardInterrupt):
        sys.stdout = nowhere  # Streamlit prints the address, which is the worker's own
        sys.exit(run_server([*flags, "--server.address=127.0.0.1", "--server.headless=true"]))


def _end_with_front() -> None:
    """End this process when the front has ended, however it did."""
    if front := multiprocessing.parent_process():
        front.join()
        common_folder.remove()
        os._exit(1)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until the reader ends; the writer then ends, too."""
    with suppress(OSError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
    await _end(writer)


async def _end(writer: asyncio.StreamWriter, last: bytes = b"") -> None:
    with suppress(OSError):
        if last:
            writer.write(last)
        writer.close()
        await writer.wait_closed()


async def _answers(port: int) -> bool:
    """Return True if the worker on this port answers."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.write(b"GET /_stcore/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    answer = b""
    with suppress(OSError, asyncio.TimeoutError):
        answer = await asyncio.wait_for(reader.readline(), _PATIENCE)
    await _end(writer)
    return b" 200 " in answer


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _shown(address: str) -> str:
    """Return the address as people of this machine type it."""
    return "localhost" if address in ("", "0.0.0.0", "::") else address
