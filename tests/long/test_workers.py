"""`attnscope --workers 2` as a whole: every session gets its own numbers, and a worker that ends is restarted."""

import asyncio
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

import models
from tests.benchmarks.clients import CHECKPOINT, Client, strangers
from tests.benchmarks.serving import APP, Server, serving

PATIENCE = 240  # s


def _workers(server: Server) -> list[int]:
    """Return the processes of the server's workers, without the one that multiprocessing adds."""
    found = subprocess.run(
        ["pgrep", "-P", str(server.process.pid), "-f", "spawn_main"], capture_output=True, text=True
    )
    return [int(pid) for pid in found.stdout.split()]


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def _answers(server: Server, cookie: str) -> str:
    request = urllib.request.Request(f"http://{server.address}/", headers={"Cookie": cookie})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.headers["Set-Cookie"].split(";")[0]
    except OSError:
        return ""


async def _arrive(server: Server, n: int) -> list[Client]:
    stream = f"ws://{server.address}/_stcore/stream"
    clients = [
        Client(i, server.address, await connect(stream, subprotocols=["streamlit"], max_size=None))
        for i in range(n)
    ]
    for client in clients:
        await client.arrive()
    return clients


async def _edits(server: Server) -> None:
    clients = await _arrive(server, 4)
    # a session that arrives while another's connection is still closing may make it three and one
    assert {client.token[:2] for client in clients} == {"0.", "1."}
    for text in ("Tom has {} dogs.", "Mary sees {} birds."):
        await asyncio.gather(*(c.edit(text.format(c.number)) for c in clients))
    assert strangers(clients, models.load(CHECKPOINT, device="cpu")) == 0
    clients[0].token = f"{1 - int(clients[0].token[0])}{clients[0].token[1:]}"  # the other worker
    with pytest.raises(InvalidStatus):
        await clients[0].open()
    for client in clients:
        await client.live.close()
        await client.socket.close()


def test_two_workers_answer_as_one_and_end_with_their_front() -> None:
    with serving(APP, workers=2) as server:
        with ThreadPoolExecutor(1) as thread:  # Playwright's loop may run in this one
            thread.submit(asyncio.run, _edits(server)).result()
        for worker in (0, 1):
            cookie = f"attnscope_worker={worker}"
            assert _answers(server, cookie) == cookie
        before = _workers(server)
        assert len(before) == 2
        os.kill(before[1], signal.SIGKILL)
        assert _answers(server, "attnscope_worker=0") == "attnscope_worker=0"  # nothing stops here
        _until(lambda: _answers(server, "attnscope_worker=1") == "attnscope_worker=1")
        now = _workers(server)
        assert len(now) == 2
        assert set(now) != set(before)
        server.process.kill()  # without notice to the workers
        _until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in now))
