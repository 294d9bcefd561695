"""The files of a Hugging Face folder, looked at before anything is built: that they are whole, and that there is room for them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch

from models.checkpoint_files import read_json
from models.errors import CheckpointError

LARGEST_CONFIG = 2**20  # bytes
LARGEST_INDEX = 2**25
LARGEST_HEADER = 10**8  # bytes, the format's own limit
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "tokenizer.model",
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
INDEX = "model.safetensors.index.json"


def config(folder: Path) -> dict[str, Any]:
    """config.json. Raises CheckpointError."""
    return read_json(folder / "config.json", largest=LARGEST_CONFIG, finite=False)


def check_weights(folder: Path, device: torch.device, dtype: torch.dtype | None) -> None:
    """Raises CheckpointError for weights that are missing or cut off, and for more than there is memory for."""
    wanted = sum(_needed(path, dtype) for path in weight_files(folder))
    given = free_memory(device)
    if wanted > given:
        sizes = [f"{n / 2**30:,.1f} GB" for n in (wanted, given)]
        raise CheckpointError(
            f"its weights take {sizes[0]}, and {sizes[1]} of memory are free on {device}"
        )


def weight_files(folder: Path) -> list[Path]:
    """The files of its weights: one, or the shards that an index names, safetensors before others. Raises CheckpointError where
    one is missing."""
    if (folder / INDEX).is_file():
        shards = read_json(folder / INDEX, largest=LARGEST_INDEX).get("weight_map")
        if not isinstance(shards, dict) or not all(
            isinstance(name, str) and Path(name).name == name for name in shards.values()
        ):
            raise CheckpointError(f"{INDEX} names no shards")
        paths = [folder / name for name in dict.fromkeys(shards.values())]
    else:
        named = [folder / "model.safetensors", *sorted(folder.glob("pytorch_model*.bin"))]
        paths = [path for path in named if path.is_file()]
        paths = paths[:1] if paths and paths[0].suffix == ".safetensors" else paths
    if not paths:
        raise CheckpointError(
            "its weights are missing: neither model.safetensors nor an index of shards nor pytorch_model.bin"
        )
    if gone := [path.name for path in paths if not path.is_file()]:
        raise CheckpointError(f"{len(gone)} of its weight files are missing, {gone[0]} for one")
    return paths


def _needed(path: Path, dtype: torch.dtype | None) -> int:
    """Bytes that the numbers of one file take in memory. Raises CheckpointError if it was cut off."""
    size = path.stat().st_size
    if path.suffix != ".safetensors":
        return size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= min(LARGEST_HEADER, size - 8):
            cut = f"{size:,} bytes, its header says {length:,}"
            raise CheckpointError(f"{path.name} is not a safetensors file, or was cut off: {cut}")
        header = file.read(length)
    try:
        tensors = [entry for name, entry in json.loads(header).items() if name != "__metadata__"]
        end = max((entry["data_offsets"][1] for entry in tensors), default=0)
        kinds = [
            (entry["dtype"], entry["data_offsets"][1] - entry["data_offsets"][0])
            for entry in tensors
        ]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        raise CheckpointError(f"{path.name} has a header that cannot be read") from None
    if 8 + length + end > size:
        raise CheckpointError(
            f"{path.name} was cut off: {size:,} bytes of the {8 + length + end:,} that its header speaks of"
        )
    to = None if dtype is None else torch.empty((), dtype=dtype).element_size()
    return sum(n // BYTES.get(kind, 1) * to if to and kind in FLOATS else n for kind, n in kinds)


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
