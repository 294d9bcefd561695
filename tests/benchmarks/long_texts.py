"""Long texts beside a short one: the wait of a person with a short text while others run long ones, and the memory that stays in use.

    python -m tests.benchmarks.long_texts

Three people each send a text of 4,000 tokens to a GPT-2 with random weights, made on the spot with 12 layers × 12 heads, whose ids
are typed; meanwhile another edits a sentence of the model that is shown first, once a second. The memory is that of the server before
the long texts, at its highest, and after everyone has left.
"""

import asyncio
import json
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from random import Random

import numpy as np
import torch
import transformers
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import connect

from tests.benchmarks.clients import EVERY, Client, crowd
from tests.benchmarks.serving import APP, Server, serving
from tests.benchmarks.side_by_side import Result, print_table
from viz_app.session.live_route import PROTOCOL

SIZES = (
    transformers.GPT2Config(vocab_size=8000, n_positions=4096, bos_token_id=0, eos_token_id=0),
    4000,
    30,
)  # of the model, tokens, s of rest
SHORT = (
    transformers.GPT2Config(vocab_size=99, n_embd=96, n_layer=2, bos_token_id=0, eos_token_id=0),
    800,
    4,
)
PEOPLE = 3
PATIENCE = 120  # s within which a model must be open
LIMIT = 480  # s after which a long text that is still running counts as this long
LOOK = 0.1  # s between two readings of the memory


class Reader:
    """A session that shows a folder's model, and sends one text over the live socket."""

    def __init__(self, address: str, folder: str) -> None:
        self.address, self.folder = address, folder

    async def arrive(self) -> None:
        """Open the page and wait until its model is open."""
        self.page = await connect(
            f"ws://{self.address}/_stcore/stream", subprotocols=["streamlit"], max_size=None
        )
        await asyncio.wait_for(self._model_opens(), PATIENCE)
        self.live = await connect(
            f"ws://{self.address}/live", subprotocols=[PROTOCOL, self.token], max_size=None
        )

    async def _model_opens(self) -> None:
        while not await self._rerun():
            await asyncio.sleep(0.25)

    async def _rerun(self) -> bool:
        """Run the page once and return whether its live socket answers afterwards."""
        back = BackMsg()
        back.rerun_script.query_string = f"checkpoint={self.folder}&text=1+2+3"
        await self.page.send(back.SerializeToString())
        is_open = has_head = False
        while True:
            message = ForwardMsg()
            message.ParseFromString(await self.page.recv())
            component = message.delta.new_element.bidi_component
            has_head |= component.component_name == "attnscope_head"
            if component.component_name == "attnscope_live":
                said = json.loads(component.json)
                self.token, is_open = said["token"], said["open"]
            if message.WhichOneof("type") == "script_finished":
                return is_open and has_head

    async def read(self, text: str) -> float:
        """Return the seconds until the pictures of this text have arrived, at most LIMIT. Raises ValueError if none do."""
        start = time.perf_counter()
        await self.live.send(json.dumps({"texts": [text, ""]}))
        with suppress(TimeoutError):
            if not await asyncio.wait_for(self.live.recv(), LIMIT):
                raise ValueError("no answer to a long text")
        return time.perf_counter() - start

    async def leave(self) -> None:
        """Close the tab."""
        await self.live.close()
        await self.page.close()


async def together(
    server: Server, folder: str, n: int
) -> tuple[list[float], list[float], float, float]:
    """Return the seconds of each long text and of each short edit meanwhile, and the memory: before, with every model open and every
    library loaded, and at its highest."""
    readers = [Reader(server.address, folder) for _ in range(PEOPLE)]
    await asyncio.gather(*(reader.arrive() for reader in readers))
    stream = f"ws://{server.address}/_stcore/stream"
    typist = Client(
        0, server.address, await connect(stream, subprotocols=["streamlit"], max_size=None)
    )
    await typist.arrive()
    texts = [" ".join(map(str, Random(i).choices(range(99), k=n))) for i in range(PEOPLE)]
    long = asyncio.gather(*(reader.read(text) for reader, text in zip(readers, texts, strict=True)))
    before = server.resident_mb()
    most = asyncio.create_task(_most_memory(server, long))
    while not long.done():
        start = time.perf_counter()
        await typist.edit(f"Tom has {len(typist.answers)} books.")
        await asyncio.sleep(max(0.0, start + EVERY - time.perf_counter()))
    for one in (*readers, typist):
        await (one.leave() if isinstance(one, Reader) else one.socket.close())
    return await long, typist.seconds, before, await most


async def _most_memory(server: Server, until: asyncio.Future) -> float:
    most = 0.0
    while not until.done():
        most = max(most, server.resident_mb())
        await asyncio.sleep(LOOK)
    return most


def measure(short: bool = False) -> list[Result]:
    """Warm up a server, run the long texts beside the short ones, then let it rest."""
    config, n, rest = SHORT if short else SIZES
    with tempfile.TemporaryDirectory() as folder, serving(APP) as server:
        torch.manual_seed(0)
        transformers.GPT2LMHeadModel(config).save_pretrained(Path(folder, "gpt2"))
        asyncio.run(crowd(server.address, 0, 1, 1.0))
        long, edits, before, most = asyncio.run(together(server, f"{folder}/gpt2", n))
        time.sleep(rest)
        after = server.resident_mb()
    size = f"{PEOPLE} texts of {n:,} tokens"
    waits, unread = np.array(edits), sum(seconds >= LIMIT for seconds in long)
    return [
        Result(f"{size}: a short edit's longest wait over a long text's", (max(edits) / max(long),), "≤ 0.1",
               f"p50 {np.median(waits):.2f}, p95 {np.percentile(waits, 95):.2f}, longest {waits.max():.2f} s of {len(edits)}; "
               f"long ones {max(long):.1f} s"
               + f", {unread} of them not read by then" * bool(unread)),
        Result(f"{size}: memory left over memory taken", ((after - before) / (most - before),), "≤ 0.5",
               f"{before:.0f} MB before, {most:.0f} at most, {after:.0f} after all had left"),
    ]  # fmt: skip


if __name__ == "__main__":
    print_table(measure())
