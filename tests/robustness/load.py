"""Many people edit at the same time while some send nonsense, and every answer is compared with that of `models`.

    python -m tests.robustness.load [--clients 30] [--seconds 60] [--nuisances 3]

The clients are those of tests/benchmarks/clients.py, which measures how long they wait; here it is checked that each gets the
pictures of the text that it sent, with the model's weights.
"""

import argparse
import asyncio
import time
from collections import Counter

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

import models
from tests.benchmarks.clients import CHECKPOINT, Client, crowd, strangers
from tests.benchmarks.serving import APP, served

NONSENSE = (b"\x00\xff", "", "[" * 100_000, '{"texts": "a"}', '{"texts": [1, 2]}', "x" * 1_000_001)


async def nuisance(address: str, number: int, seconds: float) -> int:
    """Run a session that opens as many sockets as it can and sends nonsense on each; return how often it was refused."""
    stream = await connect(
        f"ws://{address}/_stcore/stream", subprotocols=["streamlit"], max_size=None
    )
    client, sent_away = Client(number, address, stream), 0
    await client.arrive()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        tried = await asyncio.gather(*(_sent_away(client, message) for message in NONSENSE * 2))
        sent_away += sum(tried)
        await asyncio.sleep(0.1)
    await client.live.close()
    await stream.close()
    return sent_away


async def _sent_away(client: Client, message: str | bytes) -> bool:
    """Return whether one more socket of this client is refused, or closed at this message without an answer."""
    try:
        socket: ClientConnection = await client.open()
    except InvalidHandshake:
        return True
    try:
        await socket.send(message)
        await socket.recv()
    except ConnectionClosed:
        return True
    await socket.close()
    return False


async def _together(
    address: str, n_clients: int, n_nuisances: int, seconds: float
) -> tuple[list[Client], list[int]]:
    troubles = [
        asyncio.create_task(nuisance(address, 1_000 + i, seconds)) for i in range(n_nuisances)
    ]
    clients = await crowd(address, 0, n_clients, seconds)
    return clients, await asyncio.gather(*troubles)


def count(address: str, n_clients: int, n_nuisances: int, seconds: float) -> Counter:
    """Count answers, those with the text or the numbers of another client, and the nonsense sent, which got no answer."""
    clients, sent_away = asyncio.run(_together(address, n_clients, n_nuisances, seconds))
    wrong = strangers(clients, models.load(CHECKPOINT, device="cpu"))
    answers = sum(len(client.answers) for client in clients)
    return Counter(
        {"answers": answers, "wrong answers": wrong, "nonsense sent away": sum(sent_away)}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--nuisances", type=int, default=3)
    options = parser.parse_args()
    with served(APP) as address:
        found = count(address, options.clients, options.nuisances, options.seconds)
    for what, n in found.items():
        print(f"{n:8,}  {what}")


if __name__ == "__main__":
    main()
