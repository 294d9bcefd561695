"""A checkpoint is a folder: config.json, model.safetensors, tokenizer.json, training.json. Nothing is ever unpickled.

Weights are kept in half precision. Every file is replaced whole or not at all; the weights, written last, carry the
step they belong to, and a record that ran ahead of them (killed in between) is cut back to that step when read.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from models.architectures import ARCHITECTURES, Config, Model, name_of
from models.scores import at_snapshot, check_snapshot_scores
from models.tokenizer import Tokenizer

FILES = ("config.json", "tokenizer.json", "training.json", "model.safetensors")


class CheckpointError(ValueError):
    """A checkpoint that is missing, damaged or of the wrong shape, and how."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint in memory: the model in float32 and evaluation mode, on the CPU."""

    path: Path
    model: Model
    tokenizer: Tokenizer
    training: dict[str, Any]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well, and is removed if it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write the whole file or leave the old one; OSError (a full disk, say) leaves the old one."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def half_bytes(state: dict[str, Tensor], metadata: dict[str, str]) -> bytes:
    """Weights as safetensors in half precision."""
    half = {name: tensor.detach().to("cpu", torch.float16).contiguous() for name, tensor in state.items()}
    return save(half, metadata)


def save_checkpoint(folder: Path, model: Model, tokenizer: Tokenizer, training: dict[str, Any]) -> None:
    """Write or update a checkpoint folder. `training["step"]` is the step of these weights."""
    config = {"architecture": name_of(model.config), **asdict(model.config)}
    weights = half_bytes(model.state_dict(), {"step": str(training["step"])})
    write_bytes(folder / "config.json", json.dumps(config, indent=1).encode())
    write_bytes(folder / "tokenizer.json", tokenizer.to_json().encode())
    write_bytes(folder / "training.json", json.dumps(training, indent=1, ensure_ascii=False).encode())
    write_bytes(folder / "model.safetensors", weights)


def add_to_record(folder: Path, **entries: Any) -> None:
    """Write entries into a checkpoint's training.json, replaced whole. Raises CheckpointError if it cannot be read."""
    record = _json(folder / "training.json") | entries
    write_bytes(folder / "training.json", json.dumps(record, indent=1, ensure_ascii=False).encode())


def load_checkpoint(folder: str | Path, snapshot: int | None = None) -> Checkpoint:
    """Read a checkpoint folder, or the snapshot of its weights at a step. Raises CheckpointError."""
    folder = Path(folder)
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such folder")
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise CheckpointError(f"{folder}: not a checkpoint, {', '.join(missing)} is missing")
    model = _empty_model(folder)
    tokenizer = _tokenizer(folder, model.config)
    weights = folder / "model.safetensors" if snapshot is None else snapshot_path(folder, snapshot)
    step = load_weights(model, weights)
    training = _json(folder / "training.json")
    curve = training.get("curve", [])
    if not isinstance(curve, list) or not all(isinstance(row, dict) for row in curve):
        raise CheckpointError(f"{folder / 'training.json'}: curve must be a list of objects")
    examples = training.get("examples", [])
    if not (isinstance(examples, list) and all(isinstance(text, str) for text in examples)):
        raise CheckpointError(f"{folder / 'training.json'}: examples must be a list of texts")
    try:
        check_snapshot_scores(training)
    except ValueError as error:
        raise CheckpointError(f"{folder / 'training.json'}: {error}") from None
    if snapshot is not None:
        training = at_snapshot(training, snapshot)
    training["step"] = step
    training["curve"] = [row for row in curve if row.get("step", 0) <= step]
    return Checkpoint(folder, model.eval(), tokenizer, training)


def load_weights(model: Model, path: Path) -> int:
    """Copy a safetensors file into the model; returns the training step it was saved at."""
    try:
        with safe_open(path, "pt") as file:
            state = {name: file.get_tensor(name).float() for name in file.keys()}   # noqa: SIM118 (not a dict)
            step = int((file.metadata() or {}).get("step", 0))
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path}: not readable as safetensors ({error})") from None
    expected = model.state_dict()
    if state.keys() != expected.keys():
        odd = sorted(state.keys() ^ expected.keys())
        raise CheckpointError(f"{path}: {len(odd)} parameters do not match the configuration, {odd[0]} for one")
    for name, tensor in state.items():
        if tensor.shape != expected[name].shape:
            wanted, came = tuple(expected[name].shape), tuple(tensor.shape)
            raise CheckpointError(f"{path}: {name} should have shape {wanted} by config.json, but has {came}")
        if not tensor.isfinite().all():
            raise CheckpointError(f"{path}: {name} holds values that are not finite")
    model.load_state_dict(state)
    return step


def snapshot_path(folder: Path, step: int) -> Path:
    return folder / "snapshots" / f"{step:06d}.safetensors"


def snapshots(folder: Path) -> list[int]:
    """The steps of which this checkpoint keeps the weights, ascending."""
    return sorted(int(p.stem) for p in (folder / "snapshots").glob("*.safetensors") if p.stem.isdigit())


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: not readable as JSON ({error})") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}: wanted a JSON object")
    return content


def _empty_model(folder: Path) -> Model:
    config = _json(folder / "config.json")
    architecture = config.pop("architecture", None)
    if architecture not in ARCHITECTURES:
        raise CheckpointError(f"{folder}: architecture {architecture!r} is not one of {', '.join(ARCHITECTURES)}")
    build, read = ARCHITECTURES[architecture]
    try:
        return build(read(**config))
    except (TypeError, ValueError, RuntimeError, MemoryError) as error:
        raise CheckpointError(f"{folder}/config.json: {error}") from None


def _tokenizer(folder: Path, config: Config) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_json((folder / "tokenizer.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder}/tokenizer.json: {error}") from None
    if tokenizer.vocab_size != config.vocab_size:
        raise CheckpointError(
            f"{folder}: the tokenizer has {tokenizer.vocab_size} tokens, but the model's vocab_size is {config.vocab_size}"
        )
    return tokenizer
