"""The folder a run writes into: one run at a time, a new one begins without what an old one left, and its state can be resumed."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from models.architectures import Model
from models.checkpoint import CheckpointError
from models.checkpoint_files import FILES, checksum, snapshot_path, snapshots, write_bytes
from models.weights import half_bytes

STATE = "state.pt"
_MARK = b"\nSHA-256 "  # in state.pt, between what torch saved and the checksum of that


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """The folder is this process's until the block ends or the process dies. Raises ValueError if it is another's."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / ".lock", timeout=0):
            yield
    except Timeout:
        raise ValueError(
            f"{folder}: another run is writing there; wait for its end or choose another --out"
        ) from None


def leftovers(folder: Path) -> list[Path]:
    """What a run has left in a folder: checkpoint, state, snapshots, files half written; and nothing else that lies there."""
    named = [folder / name for name in (STATE, *FILES)] + [
        snapshot_path(folder, step) for step in snapshots(folder)
    ]
    return [
        path
        for path in (*named, *folder.glob(".*.partial"), *folder.glob("snapshots/.*.partial"))
        if path.is_file()
    ]


def clear(folder: Path) -> None:
    """Take away what an old run has left."""
    for path in leftovers(folder):
        path.unlink()


def write_snapshot(folder: Path, model: Model, step: int) -> None:
    """Keep the weights that a model has at a step, in half precision."""
    write_bytes(snapshot_path(folder, step), half_bytes(model.state_dict(), {"step": str(step)}))


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Write a training state, replaced whole, with its checksum behind it."""
    content = io.BytesIO()
    torch.save(state, content)
    write_bytes(path, content.getvalue() + _MARK + checksum(content.getvalue()).encode())


def read_state(path: Path, device: torch.device) -> Any:
    """What `write_state` wrote; never unpickled. Raises CheckpointError if there is none, or a damaged one."""
    try:
        content, mark, claimed = path.read_bytes().rpartition(_MARK)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file, nothing to resume") from None
    if not mark or checksum(content).encode() != claimed:
        raise CheckpointError(
            f"{path}: not readable as a training state (damaged: its checksum is not that of its content)"
        )
    try:
        return torch.load(io.BytesIO(content), map_location=device, weights_only=True)
    except Exception as error:  # a damaged file raises many kinds
        raise CheckpointError(f"{path}: not readable as a training state ({error})") from None
