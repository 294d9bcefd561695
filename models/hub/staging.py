"""A private copy of the small files of a Hugging Face folder, for transformers to read in its place: bounded, of known names, and
without any setting that names another file."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from models.checkpoint_files import read_bytes, read_json
from models.hub import files

# files of settings and the most bytes that each may have
SETTINGS = {
    "config.json": files.LARGEST_CONFIG,
    "generation_config.json": 2**20,
    "tokenizer_config.json": 2**24,  # with some thousand added tokens
    "special_tokens_map.json": 2**24,
}
SETTINGS_OF_TOKENIZERS = ("tokenizer_config.json", "special_tokens_map.json")
VOCABULARIES = (
    "tokenizer.json", "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "bpe.codes", "dict.txt", "emoji.json",
    "byte_maps.json", "target_vocab.json", "vocab-src.json", "vocab-tgt.json", "word_shape.json", "word_pronunciation.json",
    "normalizer.json", "entity_vocab.json", "prophetnet.tokenizer", "spiece.model", "spm.model", "spm_char.model",
    "sentencepiece.model", "sentencepiece.bpe.model", "tokenizer.model", "tiktoken.model", "tekken.json", "source.spm",
    "target.spm",
)  # fmt: skip
LARGEST_VOCABULARY = 2**27  # bytes; that of a quarter of a million tokens has a third of it

# settings that name a file, a folder or code; `init_inputs` are arguments without a name, among them paths
_OUTWARD = re.compile(r"(^|_)(files?|paths?|dirs?|folder|vocab|merges|weights|template)$")
_NEVER = ("init_inputs", "auto_map", "tokenizer_object", "name_or_path", "_name_or_path")
_PATH = re.compile(r"[/\\]|^~|^\.\.$")


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """Make a temporary folder with what transformers may read of `folder`, links to its weights included.

    Raises CheckpointError for a file that cannot be read, is no regular file or is too large."""
    with tempfile.TemporaryDirectory(prefix="attnscope-") as temporary:
        private = Path(temporary)
        for name, largest in SETTINGS.items():
            if os.path.lexists(folder / name):
                content = read_json(folder / name, largest=largest, finite=False)
                kept = _inward(content, strict=name in SETTINGS_OF_TOKENIZERS)
                (private / name).write_text(json.dumps(kept), "utf-8")
        for name in VOCABULARIES:
            if os.path.lexists(folder / name):
                (private / name).write_bytes(read_bytes(folder / name, LARGEST_VOCABULARY))
        _link_weights(folder, private)
        yield private


def _link_weights(folder: Path, private: Path) -> None:
    shards = files.shards(folder)
    for path in files.weight_files(folder):
        (private / path.name).symlink_to(path.resolve())
    if shards:
        index = {"metadata": {}, "weight_map": shards}
        (private / files.INDEX).write_text(json.dumps(index), "utf-8")


def _inward(value: Any, *, strict: bool, is_token: bool = False) -> Any:
    """Return settings without those that name a file. A tokenizer takes any of its settings as an argument, so there `strict` also
    drops every text that looks like a path, unless it is a token."""
    if isinstance(value, list):
        return [
            _inward(part, strict=strict, is_token=is_token)
            for part in value
            if not (strict and not is_token and _is_path(part))
        ]
    if not isinstance(value, dict):
        return value
    return {
        key: _inward(part, strict=strict, is_token=is_token or "token" in key)
        for key, part in value.items()
        if not _leads_out(key, part)
        and not (strict and not is_token and "token" not in key and _is_path(part))
    }


def _leads_out(key: str, value: Any) -> bool:
    return key in _NEVER or (bool(_OUTWARD.search(key)) and isinstance(value, str | list))


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and bool(_PATH.search(value))
