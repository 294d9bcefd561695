"""Many people editing once a second, beside one: the time and the server's cost of an answer, and whether everyone gets their own.

    python -m tests.benchmarks.clients [--clients 30 100] [--seconds 15] [--workers 1 2] [--trainers 1]

The clients are plain websocket clients on loopback that do what the app's page does in a browser: they arrive with Streamlit's
protocol, ask the live socket at each edit, and commit the text to Streamlit after a pause. An answer is timed until the picture
of the head has come back; its tokens and weights are then compared with those of `models`. With --trainers, as many runs of the
page Train go on beside the crowd.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

import models
from tests.benchmarks.serving import APP, Server, serving
from tests.benchmarks.side_by_side import Result, print_table
from viz_app.drawing.labels import labels
from viz_app.drawing.payload import unpack
from viz_app.session.live_route import PROTOCOL
from viz_app.trainers.process import TrainingProcess
from viz_app.trainers.settings import RunSettings

CHECKPOINT, SITE, HEAD = "eng-fra", "encoder.layers.0.self_attn", 1
CROWDS, SECONDS, EVERY, WORKERS = (30, 100), 15, 1.0, (1, 2)
PATIENCE, PAUSE = (
    120,
    0.25,
)  # s for the model to open and for each answer, and between two checks


@dataclass
class Client:
    """The protocol of one browser: a session, its text box, and the answers so far."""

    number: int
    address: str
    socket: ClientConnection
    live: ClientConnection | None = None
    token: str = ""
    box: str = ""  # the id of the source's text box
    fragment: str = ""
    page: str = ""
    checkpoint: str = CHECKPOINT
    seconds: list[float] = field(default_factory=list)
    answers: list[tuple[str, bytes]] = field(default_factory=list)

    async def arrive(self) -> None:
        """Run the page until its model is open. Raises TimeoutError after PATIENCE seconds."""
        await asyncio.wait_for(self._model_opens(), PATIENCE)
        self.live = await self.open()

    async def _model_opens(self) -> None:
        while not await self.commit(""):
            await asyncio.sleep(PAUSE)

    async def open(self) -> ClientConnection:
        """Open a live socket of this session."""
        return await connect(
            f"ws://{self.address}/live", subprotocols=[PROTOCOL, self.token], max_size=None
        )

    async def edit(self, text: str) -> None:
        """Change the text and wait for its picture."""
        start = time.perf_counter()
        await self.live.send(json.dumps({"texts": [text, ""]}))
        _, arrays = unpack(await asyncio.wait_for(self.live.recv(), PATIENCE))
        self.seconds.append(time.perf_counter() - start)
        self.answers.append((text, arrays["head"].tobytes()))

    async def commit(self, text: str) -> bytes:
        """Commit the text to Streamlit, as the box does when typing pauses; return the head's payload, empty while the model opens."""
        await self._send(text)
        answer = b""
        async for message in self._messages():
            element = message.delta.new_element
            if message.HasField("new_session"):
                self.page = message.new_session.page_script_hash
            if element.WhichOneof("type") == "text_area" and element.text_area.id.endswith(
                "source"
            ):
                self.box, self.fragment = element.text_area.id, message.delta.fragment_id
            component = element.bidi_component
            if component.component_name == "attnscope_head":
                answer = component.bytes
            if component.component_name == "attnscope_live":
                self.token = json.loads(component.json)["token"]
            if message.WhichOneof("type") == "script_finished":
                break
        if text:
            self.answers.append((text, answer))
        return answer

    async def keep_editing(self, seconds: float, delay: float) -> None:
        """Make one edit per second after `delay`; a late answer delays the next edit, as for a person who waits for the
        picture."""
        end = time.perf_counter() + seconds
        await asyncio.sleep(delay)
        while (start := time.perf_counter()) < end:
            await self.edit(f"Tom has {self.number} books and {len(self.answers)} cats.")
            await asyncio.sleep(max(0.0, start + EVERY - time.perf_counter()))
        await self.commit(self.answers[-1][0])

    async def _send(self, text: str) -> None:
        back = BackMsg()
        state = back.rerun_script
        state.query_string = f"checkpoint={quote(self.checkpoint)}&site={SITE}&head={HEAD}"
        state.page_script_hash, state.fragment_id = self.page, self.fragment
        if text:
            state.widget_states.widgets.add(id=self.box, string_value=text)
        await self.socket.send(back.SerializeToString())

    async def _messages(self):
        while True:
            message = ForwardMsg()
            message.ParseFromString(await asyncio.wait_for(self.socket.recv(), PATIENCE))
            yield message


async def crowd(address: str, first: int, n: int, seconds: float) -> list[Client]:
    """Let n clients, numbered from `first`, arrive one after another, then all edit at the same time."""
    stream = f"ws://{address}/_stcore/stream"
    sockets = [await connect(stream, subprotocols=["streamlit"], max_size=None) for _ in range(n)]
    clients = [Client(first + i, address, socket) for i, socket in enumerate(sockets)]
    for client in clients:
        await client.arrive()
        await client.edit(f"Tom has {client.number} dogs.")
        client.seconds.clear()
    await asyncio.gather(
        *(client.keep_editing(seconds, EVERY * i / n) for i, client in enumerate(clients))
    )
    for client in clients:
        await client.live.close()
        await client.socket.close()
    return clients


def strangers(clients: list[Client], scope: models.Scope) -> int:
    """Return how many answers do not match the text sent: other tokens on the axes, or weights other than those of `models`."""
    wrong = 0
    for text, answer in (pair for client in clients for pair in client.answers):
        if not answer:
            wrong += 1
            continue
        header, arrays = unpack(answer)
        own = [label.as_json() for label in labels(scope.encode(source=text)["source"])]
        site = scope.run(text, "x").attention[SITE]  # the encoder does not read the target
        same = header["queries"] == own and np.allclose(
            arrays["weights"], site.weights(HEAD), atol=1e-4
        )
        wrong += not same
    return wrong


@dataclass(frozen=True)
class Phase:
    """One crowd: the duration of each edit, the clients with their answers, and the server's processor time, arrivals included."""

    clients: list[Client]
    seconds: np.ndarray
    cpu_seconds: float
    load: float  # processes that ran or waited to run, averaged over the last minute

    def __str__(self) -> str:
        p50, p95 = 1e3 * np.percentile(self.seconds, (50, 95))
        return f"{p50:.0f} and {p95:.0f} ms"


@contextmanager
def training(n: int) -> Iterator[None]:
    """Train n models, as the page Train does, until the block ends."""
    settings = RunSettings("copy", "transformer").having(steps=100_000)
    with tempfile.TemporaryDirectory() as folder:
        trainers = []
        for i in range(n):
            reports: list[dict[str, Any]] = []
            arguments = settings.arguments(Path(folder, str(i)))
            trainers.append(TrainingProcess(arguments, reports.append))
            while not any(report.get("step") for report in reports):
                assert trainers[-1].is_alive, reports
                time.sleep(PAUSE)
        try:
            yield
        finally:
            for trainer in trainers:
                trainer.stop()
            for trainer in trainers:
                trainer.wait(PATIENCE)


def phase(server: Server, first: int, n: int, seconds: float) -> Phase:
    """Let n clients edit for this many seconds."""
    before = server.cpu_seconds()
    clients = asyncio.run(crowd(server.address, first, n, seconds))
    times = np.array([s for client in clients for s in client.seconds])
    return Phase(clients, times, server.cpu_seconds() - before, os.getloadavg()[0])


def measure(
    short: bool = False,
    crowds: Sequence[int] = CROWDS,
    seconds: float = SECONDS,
    workers: Sequence[int] = WORKERS,
    trainers: int = 0,
) -> list[Result]:
    """Measure one client, then each crowd, for each number of server processes."""
    crowds, seconds, trainers = ((3,), 2.0, 1) if short else (crowds, seconds, trainers)
    scope = models.load(CHECKPOINT, device="cpu")
    return [result for n in workers for result in _measured(crowds, seconds, n, trainers, scope)]


def _measured(
    crowds: Sequence[int], seconds: float, workers: int, trainers: int, scope: models.Scope
) -> list[Result]:
    """Measure one client, then each crowd beside trainers. No number is used twice, so no text is either."""
    with serving(APP, workers) as server:
        one = phase(server, 0, 1, seconds)
        with training(trainers):
            many = [
                phase(server, sum((1, *crowds)[: i + 1]), n, seconds) for i, n in enumerate(crowds)
            ]
    everyone = [client for phase in (one, *many) for client in phase.clients]
    wrong = strangers(everyone, scope)
    by = f", {workers} workers" if workers > 1 else ""
    by += f" beside {trainers} in training" if trainers else ""
    results = [
        Result(
            f"{n} clients{by}: p95 of an edit over one's p50",
            (np.percentile(crowd.seconds, 95) / np.percentile(one.seconds, 50),),
            "≤ 2" if n <= 30 and workers > 1 else "",
            f"one {one}, {n} {crowd} (p50 and p95), {len(crowd.seconds) / seconds:.1f} edits/s, "
            f"{1e3 * crowd.cpu_seconds / len(crowd.seconds):.0f} ms of CPU each, "
            f"load of the machine {crowd.load:.1f}",
        )
        for n, crowd in zip(crowds, many, strict=True)
    ]
    answers = sum(len(client.answers) for client in everyone)
    return [
        *results,
        Result(f"answers with another's numbers{by}, of {answers}", (float(wrong),), "0"),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, nargs="+", default=CROWDS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    parser.add_argument("--trainers", type=int, default=0)
    options = parser.parse_args()
    print_table(measure(False, options.clients, options.seconds, options.workers, options.trainers))
