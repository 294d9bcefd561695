"""One person opens damaged, slow and huge Hugging Face folders while another edits: every edit gets an answer with its own numbers.

python -m tests.robustness.hub_folders [--folders 60] [--seed 1]
"""

import argparse
import asyncio
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import tokenizers
import transformers
from websockets.asyncio.client import connect

import models
from tests.benchmarks.clients import Client, strangers
from tests.benchmarks.serving import APP, serving
from tests.robustness.damage import VALUES, places

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz", "the", "dog"]
SIZES = {
    "hidden_size": 22,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 31,
}
LOOKS = 3  # at the page, while a folder opens
PAUSE = 1.0  # s between two of them

Change = Callable[[Path, Random], None]


def sound(folder: Path) -> None:
    """Save a small BERT with a tokenizer."""
    vocabulary = {word: i for i, word in enumerate(WORDS)}
    backend = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    special = {"unk_token": "[UNK]", "pad_token": "[PAD]", "mask_token": "[MASK]"}
    library = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **special)
    library.save_pretrained(folder)
    config = transformers.BertConfig(vocab_size=len(WORDS), **SIZES)
    transformers.BertForMaskedLM(config).eval().save_pretrained(folder)


def a_value(folder: Path, rng: Random) -> None:
    """Replace a value somewhere in one of its files."""
    path = rng.choice(sorted(folder.glob("*.json")))
    content = json.loads(path.read_text("utf-8"))
    holder, key = rng.choice(list(places(content)))
    holder[key] = rng.choice(VALUES)
    path.write_text(json.dumps(content), "utf-8")


def its_end(folder: Path, rng: Random) -> None:
    """Cut off the end of one of its files."""
    path = rng.choice(sorted(folder.iterdir()))
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content))])


def some_bytes(folder: Path, rng: Random) -> None:
    """Change some bytes of its weights."""
    content = bytearray((folder / "model.safetensors").read_bytes())
    for _ in range(rng.randrange(1, 9)):
        content[rng.randrange(len(content))] = rng.randrange(256)
    (folder / "model.safetensors").write_bytes(content)


def _set(name: str, **changes: Any) -> Change:
    def change(folder: Path, rng: Random) -> None:
        content = json.loads((folder / name).read_text("utf-8"))
        (folder / name).write_text(json.dumps(content | changes), "utf-8")

    return change


def _replacing(letter: str, by: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": letter}, "content": by}


GROWING = {"type": "Sequence", "normalizers": [_replacing("a", "b" * 10**6), _replacing("b", "c" * 10**6)]}  # fmt: skip
SLOW = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
CHANGES: tuple[Change, ...] = (
    a_value,
    its_end,
    some_bytes,
    _set("config.json", num_hidden_layers=1000, intermediate_size=1),
    _set("config.json", num_hidden_layers=10**6),
    _set("tokenizer.json", normalizer=GROWING),
    _set("tokenizer.json", pre_tokenizer=SLOW),
)


def damaged(root: Path, n: int, seed: int) -> list[Path]:
    """Make n folders, each damaged in one way; all ways take turns."""
    rng, whole = Random(seed), root / "sound"
    sound(whole)
    folders = [Path(shutil.copytree(whole, root / f"damaged {i}")) for i in range(n)]
    for i, folder in enumerate(folders):
        CHANGES[i % len(CHANGES)](folder, rng)
    return folders


async def _client(address: str, number: int) -> Client:
    stream = f"ws://{address}/_stcore/stream"
    return Client(number, address, await connect(stream, subprotocols=["streamlit"], max_size=None))


async def _open_all(address: str, folders: list[Path]) -> None:
    """Open one folder after another, and leave each at an early stage."""
    client = await _client(address, 1)
    for folder in folders:
        client.checkpoint = str(folder)
        for _ in range(LOOKS):
            await client.commit("")
            await asyncio.sleep(PAUSE)
    await client.socket.close()


async def _together(address: str, folders: list[Path]) -> Client:
    """Edit until the last folder has been opened."""
    editor = await _client(address, 0)
    await editor.arrive()
    opening = asyncio.create_task(_open_all(address, folders))
    while not opening.done():
        await editor.edit(f"Tom has {len(editor.answers)} cats.")
        await asyncio.sleep(PAUSE / 4)
    await opening
    await editor.edit("He is here.")
    await editor.live.close()
    await editor.socket.close()
    return editor


def count(n: int, seed: int) -> Counter:
    """Return the number of answers to the second person, how many were wrong, and whether the server is still alive."""
    with (
        tempfile.TemporaryDirectory() as root,
        serving(APP) as server,
        ThreadPoolExecutor(1) as pool,  # this thread may have an event loop: Playwright's
    ):
        together = _together(server.address, damaged(Path(root), n, seed))
        editor = pool.submit(asyncio.run, together).result()
        lives = server.process.poll() is None
    wrong = strangers([editor], models.load(editor.checkpoint, device="cpu"))
    return Counter({"folders": n, "answers": len(editor.answers), "wrong": wrong, "lives": lives})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folders", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for what, n in count(options.folders, options.seed).items():
        print(f"{n:8,}  {what}")


if __name__ == "__main__":
    main()
