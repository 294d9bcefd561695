"""The files of a Hugging Face folder, checked and copied before transformers reads them.

They are checked against limits before anything is built. Settings that name another file are left
out of the copy.
"""

from __future__ import annotations

import json
import operator
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from models.checkpoint_files import read_bytes, read_json
from models.errors import CheckpointError

MAX_CONFIG_BYTES = 2**20
MAX_INDEX_BYTES = 2**25
MAX_TENSOR_HEADER_BYTES = 2**25  # the header of 100,000 tensors takes half of it
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
HUB_FLOATS = ("F64", "F32", "F16", "BF16")
PREPROCESSOR = "preprocessor_config.json"  # turns an image or a sound into a model's input
# the file and the names under which transformers 5 stores it beside a tokenizer's settings
PROCESSOR, PROCESSOR_PARTS = "processor_config.json", ("image_processor", "feature_extractor")
HUB_WEIGHTS, SHARD_INDEX = "model.safetensors", "model.safetensors.index.json"
ADAPTER = "adapter_config.json"
HAS_ADAPTER = (
    "it contains an adapter, which cannot be applied here: merge it into the base model and save the result "
    "(peft's merge_and_unload, then save_pretrained)"
)
WEIGHTS_MISSING = "its weights are missing: neither model.safetensors nor an index of shards"
PICKLED = (
    "its weights are in a .bin file, which would have to be unpickled and could run any code: open it once in transformers and "
    "write it with save_pretrained(folder, safe_serialization=True)"
)


def config(folder: Path) -> dict[str, Any]:
    """Return the content of the folder's config.json. Raises CheckpointError."""
    return read_json(folder / "config.json", largest=MAX_CONFIG_BYTES, finite=False)


def check_weights(folder: Path, device: torch.device, dtype: torch.dtype | None) -> None:
    """Raise CheckpointError if weights are missing, cut off or larger than the free memory."""
    check_room(sum(_bytes_in_memory(path, dtype) for path in weight_files(folder)), device)


def check_room(n_bytes: int, device: torch.device) -> None:
    """Raise CheckpointError if weights of `n_bytes` do not fit into the free memory."""
    available = free_memory(device)
    if n_bytes > available:
        sizes = [f"{n / 2**30:,.1f} GB" for n in (n_bytes, available)]
        raise CheckpointError(
            f"its weights take {sizes[0]}, and {sizes[1]} of memory are free on {device}"
        )


def weight_files(folder: Path) -> list[Path]:
    """Return the weight files: model.safetensors or, without it, the shards of the index.

    Raises CheckpointError if one is missing.
    """
    paths = [folder / name for name in dict.fromkeys(shards(folder).values())] or [
        folder / HUB_WEIGHTS
    ]
    missing = [path.name for path in paths if not path.is_file()]
    if missing == [HUB_WEIGHTS]:
        raise CheckpointError(
            PICKLED if any(folder.glob("pytorch_model*.bin")) else WEIGHTS_MISSING
        )
    if missing:
        raise CheckpointError(
            f"weight files are missing, such as {missing[0]} ({len(missing)} in total)"
        )
    return paths


def shards(folder: Path) -> dict[str, str]:
    """Return parameter → file for weights in shards; empty if model.safetensors holds all.

    Raises CheckpointError for an index that names no shards.
    """
    if (folder / HUB_WEIGHTS).is_file() or not os.path.lexists(folder / SHARD_INDEX):
        return {}
    names = read_json(folder / SHARD_INDEX, largest=MAX_INDEX_BYTES).get("weight_map")
    if not isinstance(names, dict) or not names or not all(map(_is_shard, names.values())):
        raise CheckpointError(f"{SHARD_INDEX} names no shards")
    return names


def _is_shard(name: Any) -> bool:
    return isinstance(name, str) and Path(name).name == name and name.endswith(".safetensors")


def stored_numbers(folder: Path) -> int:
    """Return how many numbers the weights of a folder hold. Raises CheckpointError."""
    return sum(
        n // BYTES.get(kind, 1) for path in weight_files(folder) for kind, n in _tensors(path)
    )


def _bytes_in_memory(path: Path, dtype: torch.dtype | None) -> int:
    """Return the bytes that the numbers of one file take in memory.

    Raises CheckpointError if it was cut off.
    """
    to = None if dtype is None else torch.empty((), dtype=dtype).element_size()
    return sum(
        n // BYTES.get(kind, 1) * to if to and kind in HUB_FLOATS else n
        for kind, n in _tensors(path)
    )


def _tensors(path: Path) -> list[tuple[str, int]]:
    """Return the type and the bytes of each tensor in one file.

    Raises CheckpointError if it was cut off.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= min(MAX_TENSOR_HEADER_BYTES, size - 8):
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
            f"{path.name} was cut off: {size:,} bytes of the {8 + length + end:,} that its header announces"
        )
    return kinds


def free_memory(device: torch.device) -> int:
    """Return the free bytes of a device, or of the machine if the device does not report them."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        return 1024 * int(
            next(line for line in lines if line.startswith("MemAvailable")).split()[1]
        )
    except (OSError, StopIteration, ValueError, IndexError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


# settings files and the largest size of each, in bytes
SETTINGS = {
    "config.json": MAX_CONFIG_BYTES,
    "generation_config.json": 2**20,
    "tokenizer_config.json": 2**24,  # with some thousand added tokens
    "special_tokens_map.json": 2**24,
    PREPROCESSOR: 2**20,  # with the filters of a spectrogram
}
SETTINGS_OF_TOKENIZERS = ("tokenizer_config.json", "special_tokens_map.json")
VOCABULARIES = (
    "tokenizer.json", "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "bpe.codes", "dict.txt", "emoji.json",
    "byte_maps.json", "target_vocab.json", "vocab-src.json", "vocab-tgt.json", "word_shape.json", "word_pronunciation.json",
    "normalizer.json", "entity_vocab.json", "prophetnet.tokenizer", "spiece.model", "spm.model", "spm_char.model",
    "sentencepiece.model", "sentencepiece.bpe.model", "tokenizer.model", "tiktoken.model", "tekken.json", "source.spm",
    "target.spm",
)  # fmt: skip
# a folder without any of these has no tokenizer, whatever related files it holds
TOKENIZER_FILES = (
    "tokenizer_config.json",
    *(name for name in VOCABULARIES if name not in ("added_tokens.json", "merges.txt")),
)
MAX_VOCABULARY_BYTES = 2**27  # that of 250,000 tokens takes a third of it

# settings that name a file, a folder or code; `init_inputs` are unnamed arguments, such as paths
_FILE_SETTINGS = re.compile(r"(^|_)(files?|paths?|dirs?|folder|vocab|merges|weights|template)$")
_DROPPED = ("init_inputs", "auto_map", "tokenizer_object", "name_or_path", "_name_or_path")
_PATH = re.compile(r"[/\\]|^~|^\.\.$")


@contextmanager
def stage_folder(folder: Path) -> Iterator[Path]:
    """Make a temporary folder with the files that transformers may read, weights as links.

    Raises CheckpointError for a file that cannot be read, is not a regular file or is too large.
    """
    with tempfile.TemporaryDirectory(prefix="attnscope-") as temporary:
        private = Path(temporary)
        for name, largest in SETTINGS.items():
            if os.path.lexists(folder / name):
                content = read_json(folder / name, largest=largest, finite=False)
                safe = _without_paths(content, strict=name in SETTINGS_OF_TOKENIZERS)
                (private / name).write_text(json.dumps(safe), "utf-8")
        if not (private / PREPROCESSOR).exists() and (settings := _processor_settings(folder)):
            (private / PREPROCESSOR).write_text(json.dumps(settings), "utf-8")
        for name in VOCABULARIES:
            if os.path.lexists(folder / name):
                (private / name).write_bytes(read_bytes(folder / name, MAX_VOCABULARY_BYTES))
        _link_weights(folder, private)
        yield private


def _processor_settings(folder: Path) -> dict[str, Any]:
    """Return the settings of images or sounds that a processor of several parts saved."""
    if not os.path.lexists(folder / PROCESSOR):
        return {}
    content = read_json(folder / PROCESSOR, largest=SETTINGS[PREPROCESSOR], finite=False)
    parts = [content[name] for name in PROCESSOR_PARTS if isinstance(content.get(name), dict)]
    return _without_paths(parts[0], strict=False) if len(parts) == 1 else {}


def _link_weights(folder: Path, private: Path) -> None:
    names = shards(folder)
    for path in weight_files(folder):
        (private / path.name).symlink_to(path.resolve())
    if names:
        index = {"metadata": {}, "weight_map": names}
        (private / SHARD_INDEX).write_text(json.dumps(index), "utf-8")


def _without_paths(value: Any, *, strict: bool, is_token: bool = False) -> Any:
    """Return settings without those that name a file.

    A tokenizer takes any of its settings as an argument, so there `strict` also drops every text
    that looks like a path, unless it is a token.
    """
    if isinstance(value, list):
        return [
            _without_paths(part, strict=strict, is_token=is_token)
            for part in value
            if not (strict and not is_token and _is_path(part))
        ]
    if not isinstance(value, dict):
        return value
    return {
        key: _without_paths(part, strict=strict, is_token=is_token or "token" in key)
        for key, part in value.items()
        if not _names_file(key, part)
        and not (strict and not is_token and "token" not in key and _is_path(part))
    }


def _names_file(key: str, value: Any) -> bool:
    return key in _DROPPED or (bool(_FILE_SETTINGS.search(key)) and isinstance(value, str | list))


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and bool(_PATH.search(value))
