"""The folder a run writes into: one run at a time, and a new one begins without what an old one left."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from models.checkpoint import FILES, snapshot_path, snapshots

STATE = "state.pt"


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """The folder is this process's until the block ends or the process dies. Raises ValueError if it is another's."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / ".lock", timeout=0):
            yield
    except Timeout:
        raise ValueError(f"{folder}: another run is writing there; wait for its end or choose another --out") from None


def leftovers(folder: Path) -> list[Path]:
    """What a run has left in a folder: checkpoint, state, snapshots, files half written; and nothing else that lies there."""
    named = [folder / name for name in (STATE, *FILES)] + [snapshot_path(folder, step) for step in snapshots(folder)]
    return [path for path in (*named, *folder.glob(".*.partial"), *folder.glob("snapshots/.*.partial")) if path.is_file()]


def clear(folder: Path) -> None:
    """Take away what an old run has left."""
    for path in leftovers(folder):
        path.unlink()
