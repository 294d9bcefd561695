"""Output folder of a run: locked, cleared of older runs, with a state to resume from."""

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from models.architectures import Model
from models.checkpoint import CheckpointError
from models.checkpoint_files import (
    CHECKPOINT_FILES,
    checksum,
    snapshot_path,
    snapshots,
    write_bytes,
)
from models.weights import half_bytes

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

STATE = "state.pt"
LOCK_FILE = ".lock"
CLAIM_SECONDS = 0.2  # s, longer than another process takes to check for a claim
_MARK = b"\nSHA-256 "  # in state.pt, between torch's content and its checksum


@contextmanager
def claim_folder(folder: Path) -> Iterator[None]:
    """Lock the folder for this process until the block ends or the process dies.

    Raises:
        ValueError: Another process has the lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / LOCK_FILE, timeout=CLAIM_SECONDS):
            yield
    except Timeout:
        raise ValueError(
            f"{folder}: another run is writing there; wait until it ends or choose another folder"
        ) from None


def is_claimed(folder: Path) -> bool:
    """Return True if a process is writing into the folder; nothing in it is changed.

    It works for a read-only folder, too.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        file = os.open(folder / LOCK_FILE, flags)
    except OSError:  # none, or a link
        return False
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return False
        return _is_locked(folder / LOCK_FILE, file)
    finally:
        os.close(file)


def _is_locked(path: Path, file: int) -> bool:
    try:
        if fcntl is None:
            with FileLock(path, timeout=0):
                return False
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, Timeout):
        return True
    except OSError:  # a file system without locks
        return False
    return False


def leftovers(folder: Path) -> list[Path]:
    """Return the files of an earlier run: checkpoint, state, snapshots, partial files.

    Other files in the folder are not listed.
    """
    files = [folder / name for name in (STATE, *CHECKPOINT_FILES)] + [
        snapshot_path(folder, step) for step in snapshots(folder)
    ]
    return [
        path
        for path in (*files, *folder.glob(".*.partial"), *folder.glob("snapshots/.*.partial"))
        if path.is_file()
    ]


def clear(folder: Path) -> None:
    """Remove the files of an earlier run."""
    for path in leftovers(folder):
        path.unlink()


def write_snapshot(folder: Path, model: Model, step: int) -> None:
    """Save the weights of a model at a step, in half precision."""
    write_bytes(snapshot_path(folder, step), half_bytes(model.state_dict(), {"step": str(step)}))


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Write a training state with its checksum, replacing the whole file."""
    content = io.BytesIO()
    torch.save(state, content)
    write_bytes(path, content.getvalue() + _MARK + checksum(content.getvalue()).encode())


def read_state(path: Path, device: torch.device) -> Any:
    """Read a state that `write_state` wrote, without unpickling arbitrary objects.

    Raises:
        CheckpointError: The state is missing or damaged.
    """
    try:
        content, mark, claimed = path.read_bytes().rpartition(_MARK)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file, nothing to resume") from None
    if not mark or checksum(content).encode() != claimed:
        raise CheckpointError(
            f"{path}: not readable as a training state (damaged: the checksum does not match)"
        )
    try:
        return torch.load(io.BytesIO(content), map_location=device, weights_only=True)
    except Exception as error:  # a damaged file raises many kinds
        raise CheckpointError(f"{path}: not readable as a training state ({error})") from None
