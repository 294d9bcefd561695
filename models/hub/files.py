"""The files of a Hugging Face folder, looked at before anything is built: that they are whole, and that there is room for them."""

from __future__ import annotations

import json
import operator
import os
from pathlib import Path
from typing import Any

import torch

from models.checkpoint_files import read_json
from models.errors import CheckpointError

LARGEST_CONFIG = 2**20  # bytes
LARGEST_INDEX = 2**25
LARGEST_HEADER = 2**25  # bytes; that of a hundred thousand tensors has half of it
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "tokenizer.model",
    "source.spm",
    "vocab-src.json",
    "prophetnet.tokenizer",
)
BYTES = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U8": 1,
    "BOOL": 1,
}
FLOATS = ("F64", "F32", "F16", "BF16")
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
MISSING = "its weights are missing: neither model.safetensors nor an index of shards"
PICKLED = (
    "its weights are in a .bin file, which would have to be unpickled and could run any code: open it once in transformers and "
    "write it with save_pretrained(folder, safe_serialization=True)"
)


def config(folder: Path) -> dict[str, Any]:
    """config.json. Raises CheckpointError."""
    return read_json(folder / "config.json", largest=LARGEST_CONFIG, finite=False)


def check_weights(folder: Path, device: torch.device, dtype: torch.dtype | None) -> None:
    """Raises CheckpointError for weights that are missing or cut off, and for more than there is memory for."""
    check_room(sum(_needed(path, dtype) for path in weight_files(folder)), device)


def check_room(wanted: int, device: torch.device) -> None:
    """Raises CheckpointError if so many bytes of weights are more than there is memory for."""
    given = free_memory(device)
    if wanted > given:
        sizes = [f"{n / 2**30:,.1f} GB" for n in (wanted, given)]
        raise CheckpointError(
            f"its weights take {sizes[0]}, and {sizes[1]} of memory are free on {device}"
        )


def weight_files(folder: Path) -> list[Path]:
    """Return model.safetensors or, without one, the shards that its index names, as transformers chooses them.

    Raises CheckpointError if one is missing."""
    paths = [folder / name for name in dict.fromkeys(shards(folder).values())] or [folder / WEIGHTS]
    gone = [path.name for path in paths if not path.is_file()]
    if gone == [WEIGHTS]:
        raise CheckpointError(PICKLED if any(folder.glob("pytorch_model*.bin")) else MISSING)
    if gone:
        raise CheckpointError(f"{len(gone)} of its weight files are missing, {gone[0]} for one")
    return paths


def shards(folder: Path) -> dict[str, str]:
    """Return parameter → file of weights that lie in shards; empty where model.safetensors holds all. Raises CheckpointError."""
    if (folder / WEIGHTS).is_file() or not os.path.lexists(folder / INDEX):
        return {}
    names = read_json(folder / INDEX, largest=LARGEST_INDEX).get("weight_map")
    if not isinstance(names, dict) or not names or not all(map(_is_shard, names.values())):
        raise CheckpointError(f"{INDEX} names no shards")
    return names


def _is_shard(name: Any) -> bool:
    return isinstance(name, str) and Path(name).name == name and name.endswith(".safetensors")


def stored_numbers(folder: Path) -> int:
    """Return how many numbers the weights of a folder hold. Raises CheckpointError."""
    return sum(
        n // BYTES.get(kind, 1) for path in weight_files(folder) for kind, n in _tensors(path)
    )


def _needed(path: Path, dtype: torch.dtype | None) -> int:
    """Bytes that the numbers of one file take in memory. Raises CheckpointError if it was cut off."""
    to = None if dtype is None else torch.empty((), dtype=dtype).element_size()
    return sum(
        n // BYTES.get(kind, 1) * to if to and kind in FLOATS else n for kind, n in _tensors(path)
    )


def _tensors(path: Path) -> list[tuple[str, int]]:
    """Return the type and the bytes of each tensor in one file. Raises CheckpointError if it was cut off."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= min(LARGEST_HEADER, size - 8):
            cut = f"{size:,} bytes, its header says {length:,}"
            raise CheckpointError(f"{path.name} is not a safetensors file, or was cut off: {cut}")
        header = file.read(length)
    try:
        tensors = [entry for name, entry in json.loads(header).items() if name != "__metadata__"]
        spans = [(entry["dtype"], *map(operator.index, entry["data_offsets"])) for entry in tensors]
        kinds = [(str(kind), end - start) for kind, start, end in spans if 0 <= start <= end]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError):
        raise CheckpointError(f"{path.name} has a header that cannot be read") from None
    if len(kinds) < len(spans):
        raise CheckpointError(f"{path.name} has a header that cannot be read")
    end = max((end for _, _, end in spans), default=0)
    if 8 + length + end > size:
        raise CheckpointError(
            f"{path.name} was cut off: {size:,} bytes of the {8 + length + end:,} that its header speaks of"
        )
    return kinds


def free_memory(device: torch.device) -> int:
    """Bytes that are free on a device; of the machine where the device does not say."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        return 1024 * int(
            next(line for line in lines if line.startswith("MemAvailable")).split()[1]
        )
    except (OSError, StopIteration, ValueError, IndexError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
