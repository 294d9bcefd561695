"""A checkpoint is a folder: config.json, model.safetensors, tokenizer.json, training.json. Nothing is ever unpickled.

Weights are kept in half precision. Every file is replaced whole or not at all; the weights, written last, carry the
step they belong to, and a record that ran ahead of them (killed in between) is cut back to that step when read.
The record holds the checksums of the other files, so that one that was changed or exchanged is said to be. What has no
checksum there (an older checkpoint, one made by hand) opens, and nothing is claimed of it; `seal` adds them.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from models import weights
from models.architectures import ARCHITECTURES, Config, Model, family_of, name_of
from models.architectures.base import Family
from models.architectures.config_checks import check_types
from models.checkpoint_files import (
    CONFIG,
    FILES,
    RECORD,
    TOKENIZER,
    WEIGHTS,
    checksum,
    named,
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

BEFORE = f"{WEIGHTS} before"  # in the checksums: the weights that are being replaced
ATTEMPTS = 3  # to read a checkpoint that is being written


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint in memory: the model in float32 and evaluation mode, on the CPU."""

    path: Path
    model: Model
    tokenizer: Tokenizer
    training: dict[str, Any]


def save_checkpoint(
    folder: Path, model: Model, tokenizer: Tokenizer, training: dict[str, Any]
) -> None:
    """Write or update a checkpoint folder. `training["step"]` is the step of these weights."""
    config = {"architecture": name_of(model.config), **asdict(model.config)}
    contents = {
        CONFIG: json.dumps(config, indent=1).encode(),
        TOKENIZER: tokenizer.to_json().encode(),
        WEIGHTS: weights.half_bytes(model.state_dict(), {"step": str(training["step"])}),
    }
    there = checksums(folder)
    sums = there | {name: checksum(content) for name, content in contents.items()}
    write_bytes(folder / CONFIG, contents[CONFIG])
    write_bytes(folder / TOKENIZER, contents[TOKENIZER])
    if (
        WEIGHTS in there
    ):  # killed before the new weights are there, the old ones are those of this checkpoint too
        _write_record(folder, training | {"checksums": sums | {BEFORE: there[WEIGHTS]}})
    write_bytes(folder / WEIGHTS, contents[WEIGHTS])
    _write_record(folder, training | {"checksums": sums})


def add_to_record(folder: Path, **entries: Any) -> None:
    """Write entries into a checkpoint's training.json, replaced whole; its checksums stay as they are.

    Raises CheckpointError if it cannot be read, ValueError if an entry is not of its form."""
    _write_record(folder, read_json(folder / RECORD) | entries)


def checksums(folder: Path) -> dict[str, str]:
    """File → checksum of what the record vouches for, as it lies on the disk: configuration, tokenizer, weights, snapshots."""
    paths = [
        folder / CONFIG,
        folder / TOKENIZER,
        folder / WEIGHTS,
        *(snapshot_path(folder, step) for step in snapshots(folder)),
    ]
    return {
        path.relative_to(folder).as_posix(): checksum(path.read_bytes())
        for path in paths
        if path.is_file()
    }


def seal(folder: Path) -> dict[str, str]:
    """Write the checksums of a checkpoint's files as they are now into its training.json; returns them.

    Raises CheckpointError if it, or one of its snapshots, does not open."""
    for snapshot in (None, *snapshots(folder)):
        _open(folder, snapshot, claimed={})
    add_to_record(folder, checksums=(sums := checksums(folder)))
    return sums


def load_checkpoint(folder: str | Path, snapshot: int | None = None) -> Checkpoint:
    """Read a checkpoint folder, or the snapshot of its weights at a step. Raises CheckpointError."""
    return _open(Path(folder), snapshot)


def _open(folder: Path, snapshot: int | None, claimed: dict[str, str] | None = None) -> Checkpoint:
    """`claimed` checksums count instead of those in the record."""
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such folder")
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise CheckpointError(f"{folder}: not a checkpoint, {', '.join(missing)} is missing")
    path = folder / WEIGHTS if snapshot is None else snapshot_path(folder, snapshot)
    for attempt in range(
        ATTEMPTS
    ):  # a run may replace the weights and then the record between two of these reads
        contents = {p: read_bytes(p) for p in (folder / CONFIG, folder / TOKENIZER, path)}
        # the record last: it knows older weights
        training = read_json(folder / RECORD)
        with named(folder / RECORD):
            check_record(training)
        sums = training.pop("checksums", {})
        try:
            _check_sums(folder, contents, sums if claimed is None else claimed)
            break
        except CheckpointError:
            if attempt == ATTEMPTS - 1:
                raise
    blank, tokenizer = (
        _blank(folder, contents[folder / CONFIG]),
        _tokenizer(folder, contents[folder / TOKENIZER]),
    )
    if tokenizer.vocab_size != blank.config.vocab_size:
        raise CheckpointError(
            f"{folder}: the tokenizer has {tokenizer.vocab_size} tokens, but the model's vocab_size is {blank.config.vocab_size}"
        )
    with named(folder / CONFIG):
        _check_special_tokens(blank.config, tokenizer)
    with named(path):
        model, step = weights.read(contents[path], blank)
    if snapshot is not None:
        if step != snapshot:
            raise CheckpointError(f"{path}: holds the weights of step {step}")
        training = at_snapshot(training, snapshot)
    training["step"] = step
    training["curve"] = [row for row in training.get("curve", []) if row["step"] <= step]
    return Checkpoint(folder, model, tokenizer, training)


@dataclass(frozen=True)
class Description:
    """What a checkpoint's small files say of it."""

    family: Family
    training: dict[str, Any]


def describe(folder: str | Path) -> Description:
    """What a checkpoint says it is; no weight is read, and nothing is built. Raises CheckpointError."""
    training = read_json(Path(folder) / RECORD)
    with named(Path(folder) / RECORD):
        check_record(training)
    return Description(family_of(config_of(folder)), training)


def config_of(folder: str | Path) -> Config:
    """The sizes of a checkpoint's model; nothing is built. Raises CheckpointError."""
    return _config(Path(folder), read_bytes(Path(folder) / CONFIG))


def _write_record(folder: Path, record: dict[str, Any]) -> None:
    check_record(record)
    write_bytes(folder / RECORD, json.dumps(record, indent=1, ensure_ascii=False).encode())


def _check_sums(folder: Path, contents: dict[Path, bytes], claimed: dict[str, str]) -> None:
    for path, content in contents.items():
        name = path.relative_to(folder).as_posix()
        wanted = [
            claimed[n] for n in ((name, BEFORE) if name == WEIGHTS else (name,)) if n in claimed
        ]
        if wanted and checksum(content) not in wanted:
            raise CheckpointError(
                f"{path}: changed since the checkpoint was saved; if it should be, `attnscope seal` its folder"
            )


def _blank(folder: Path, content: bytes) -> Model:
    """The model that config.json describes, without its numbers."""
    config = _config(folder, content)
    with named(folder / CONFIG):
        return weights.blank(config)


def _config(folder: Path, content: bytes) -> Config:
    config = read_json(folder / CONFIG, content)
    architecture = config.pop("architecture", None)
    if not isinstance(architecture, str) or architecture not in ARCHITECTURES:
        raise CheckpointError(
            f"{folder}: architecture {architecture!r:.60} is not one of {', '.join(ARCHITECTURES)}"
        )
    with named(folder / CONFIG):
        _, read = ARCHITECTURES[architecture]
        check_types(read, config)
        return read(**config)


def _check_special_tokens(config: Config, tokenizer: Tokenizer) -> None:
    for name, i in tokenizer.special_ids.items():
        if getattr(config, f"{name}_id", i) != i:
            raise ValueError(
                f"{name}_id must be {i}, the tokenizer's {tokenizer.token(i)}, not {getattr(config, f'{name}_id')}"
            )


def _tokenizer(folder: Path, content: bytes) -> Tokenizer:
    with named(folder / TOKENIZER):
        return Tokenizer.from_json(content.decode("utf-8"))
