"""Save, open and describe checkpoint folders. Nothing is ever unpickled.

A checkpoint is a folder of config.json, model.safetensors, tokenizer.json and training.json.
Weights are stored in half precision. Every file is replaced whole or not at all. The weights are
written last and carry their training step; if the run was killed before that, a record that is
ahead of the weights is cut back to their step on reading. The record holds the checksums of the
other files, so a changed or exchanged file is reported. A file without a checksum there (of an
older checkpoint, or one made by hand) opens unchecked; `seal` adds the checksums.
"""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from filelock import FileLock

from models import weights
from models.architectures import ARCHITECTURES, Config, Model, architecture_name, family_of
from models.architectures.base import Family
from models.architectures.config_checks import check_types
from models.checkpoint_files import (
    CHECKPOINT_FILES,
    CONFIG,
    RECORD,
    TOKENIZER,
    WEIGHTS,
    checksum,
    file_checksum,
    naming_file,
    read_bytes,
    read_json,
    snapshot_path,
    snapshots,
    write_bytes,
)
from models.errors import CheckpointError
from models.scores import at_snapshot
from models.tokenizers.base import Tokenizer
from models.training_record import check_record

PREVIOUS_WEIGHTS = f"{WEIGHTS} before"  # key in the checksums for the weights being replaced
RECORD_LOCK = f".{RECORD}.lock"  # held while a process changes the record
ATTEMPTS = 3  # at reading a checkpoint that is being written


@dataclass(frozen=True)
class Checkpoint:
    """Checkpoint in memory: the model in float32 and evaluation mode, on the CPU."""

    path: Path
    model: Model
    tokenizer: Tokenizer
    training: dict[str, Any]


def fingerprint(model: Model, tokenizer: Tokenizer, digest: str) -> str:
    """Return the SHA-256 (hex) of configuration, settings, tokenizer and `digest` of the weights.

    Models with the same fingerprint give the same answers.
    """
    config = json.dumps(
        {"architecture": architecture_name(model.config), **asdict(model.config)}, sort_keys=True
    )
    parts = [config, tokenizer.to_json(), digest, *filter(None, [model.settings])]
    return sha256("\n".join(parts).encode()).hexdigest()


def save_checkpoint(
    folder: Path, model: Model, tokenizer: Tokenizer, training: dict[str, Any]
) -> None:
    """Write or update a checkpoint folder; `training["step"]` is the step of these weights."""
    config = {"architecture": architecture_name(model.config), **asdict(model.config)}
    contents = {
        CONFIG: json.dumps(config, indent=1).encode(),
        TOKENIZER: tokenizer.to_json().encode(),
        WEIGHTS: weights.half_bytes(model.state_dict(), {"step": str(training["step"])}),
    }
    with _record_lock(folder):
        old_sums = checksums(folder)
        sums = old_sums | {name: checksum(content) for name, content in contents.items()}
        write_bytes(folder / CONFIG, contents[CONFIG])
        write_bytes(folder / TOKENIZER, contents[TOKENIZER])
        if WEIGHTS in old_sums:  # if killed before the new weights are written, the old ones count
            _write_record(
                folder, training | {"checksums": sums | {PREVIOUS_WEIGHTS: old_sums[WEIGHTS]}}
            )
        write_bytes(folder / WEIGHTS, contents[WEIGHTS])
        _write_record(folder, training | {"checksums": sums})


def add_to_record(folder: Path, **entries: Any) -> None:
    """Add entries to a checkpoint's training.json, replacing the file whole.

    The checksums stay as they are.

    Raises:
        CheckpointError: The record cannot be read.
        ValueError: An entry is malformed.
    """
    change_record(folder, lambda record: entries)


def change_record(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Add the entries that `change` makes from the present record to training.json.

    Processes that change the same record wait for each other, so that no entry is lost.

    Raises:
        CheckpointError: The record cannot be read.
        ValueError: An entry is malformed.
    """
    with _record_lock(folder):
        record = read_json(folder / RECORD)
        _write_record(folder, record | change(record))


def checksums(folder: Path) -> dict[str, str]:
    """Return the checksum of each file that the record covers, by file name.

    These are configuration, tokenizer, weights and snapshots.
    """
    paths = [
        folder / CONFIG,
        folder / TOKENIZER,
        folder / WEIGHTS,
        *(snapshot_path(folder, step) for step in snapshots(folder)),
    ]
    return {
        path.relative_to(folder).as_posix(): file_checksum(path) for path in paths if path.is_file()
    }


def seal(folder: Path) -> dict[str, str]:
    """Write the current checksums of a checkpoint's files into its training.json and return them.

    Raises:
        CheckpointError: The checkpoint, or one of its snapshots, does not open.
    """
    for snapshot in (None, *snapshots(folder)):
        _open(folder, snapshot, claimed={})
    add_to_record(folder, checksums=(sums := checksums(folder)))
    return sums


def load_checkpoint(folder: str | Path, snapshot: int | None = None) -> Checkpoint:
    """Read a checkpoint folder, or the snapshot of its weights at one step.

    Raises:
        CheckpointError: A file is missing, damaged or does not fit the others.
    """
    return _open(Path(folder), snapshot)


def _open(folder: Path, snapshot: int | None, claimed: dict[str, str] | None = None) -> Checkpoint:
    """Open a checkpoint; `claimed`, if given, replaces the checksums in the record."""
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such folder")
    missing = [name for name in CHECKPOINT_FILES if not (folder / name).is_file()]
    if missing:
        raise CheckpointError(f"{folder}: not a checkpoint, {', '.join(missing)} is missing")
    path = folder / WEIGHTS if snapshot is None else snapshot_path(folder, snapshot)
    contents, training = _read_consistent(folder, path, claimed)
    blank = _blank(folder, contents[folder / CONFIG])
    tokenizer = _tokenizer(folder, contents[folder / TOKENIZER])
    if tokenizer.vocab_size != blank.config.vocab_size:
        raise CheckpointError(
            f"{folder}: the tokenizer has {tokenizer.vocab_size} tokens, but the model's vocab_size is {blank.config.vocab_size}"
        )
    with naming_file(folder / CONFIG):
        _check_special_tokens(blank.config, tokenizer)
    with naming_file(path):
        model, step = weights.read_model(contents[path], blank)
    if snapshot is not None:
        if step != snapshot:
            raise CheckpointError(f"{path}: holds the weights of step {step}")
        training = at_snapshot(training, snapshot)
    training["step"] = step
    training["curve"] = [row for row in training.get("curve", []) if row["step"] <= step]
    return Checkpoint(folder, model, tokenizer, training)


def _read_consistent(
    folder: Path, weights_path: Path, claimed: dict[str, str] | None
) -> tuple[dict[Path, bytes], dict[str, Any]]:
    """Read the files and the record, again if a run replaced some of them between two reads."""
    for attempts_left in reversed(range(ATTEMPTS)):
        contents = {p: read_bytes(p) for p in (folder / CONFIG, folder / TOKENIZER, weights_path)}
        training = read_json(folder / RECORD)  # last, because it also knows the older weights
        with naming_file(folder / RECORD):
            check_record(training)
        sums = training.pop("checksums", {})
        try:
            _check_sums(folder, contents, sums if claimed is None else claimed)
        except CheckpointError:
            if not attempts_left:
                raise
        else:
            return contents, training
    raise AssertionError("the last attempt returns or raises")


@dataclass(frozen=True)
class Description:
    """Family and training record of a checkpoint, from its small files."""

    family: Family
    training: dict[str, Any]


def describe_checkpoint(folder: str | Path) -> Description:
    """Describe a checkpoint without reading weights or building the model.

    Raises:
        CheckpointError: The configuration or the record cannot be read.
    """
    training = read_json(Path(folder) / RECORD)
    with naming_file(Path(folder) / RECORD):
        check_record(training)
    return Description(family_of(read_config(folder)), training)


def read_config(folder: str | Path) -> Config:
    """Return the configuration of a checkpoint's model without building it.

    Raises:
        CheckpointError: The configuration cannot be read.
    """
    return _config(Path(folder), read_bytes(Path(folder) / CONFIG))


def _record_lock(folder: Path) -> AbstractContextManager[Any]:
    """Return the lock of a record, which a folder without one does not need."""
    return FileLock(folder / RECORD_LOCK) if (folder / RECORD).is_file() else nullcontext()


def _write_record(folder: Path, record: dict[str, Any]) -> None:
    check_record(record)
    write_bytes(folder / RECORD, json.dumps(record, indent=1, ensure_ascii=False).encode())


def _check_sums(folder: Path, contents: dict[Path, bytes], claimed: dict[str, str]) -> None:
    for path, content in contents.items():
        name = path.relative_to(folder).as_posix()
        expected = [
            claimed[n]
            for n in ((name, PREVIOUS_WEIGHTS) if name == WEIGHTS else (name,))
            if n in claimed
        ]
        if expected and checksum(content) not in expected:
            raise CheckpointError(
                f"{path}: changed since the checkpoint was saved; "
                "if that was intended, run `attnscope seal` on its folder"
            )


def _blank(folder: Path, content: bytes) -> Model:
    """Return the model that config.json describes, without values in its parameters."""
    config = _config(folder, content)
    with naming_file(folder / CONFIG):
        return weights.blank(config)


def _config(folder: Path, content: bytes) -> Config:
    config = read_json(folder / CONFIG, content)
    architecture = config.pop("architecture", None)
    if not isinstance(architecture, str) or architecture not in ARCHITECTURES:
        raise CheckpointError(
            f"{folder}: architecture {architecture!r:.60} is not one of {', '.join(ARCHITECTURES)}"
        )
    with naming_file(folder / CONFIG):
        _, config_class = ARCHITECTURES[architecture]
        check_types(config_class, config)
        return config_class(**config)


def _check_special_tokens(config: Config, tokenizer: Tokenizer) -> None:
    for name, i in tokenizer.special_ids.items():
        if getattr(config, f"{name}_id", i) != i:
            raise ValueError(
                f"{name}_id must be {i}, the tokenizer's {tokenizer.token(i)}, not {getattr(config, f'{name}_id')}"
            )


def _tokenizer(folder: Path, content: bytes) -> Tokenizer:
    with naming_file(folder / TOKENIZER):
        return Tokenizer.from_json(content.decode("utf-8"))
