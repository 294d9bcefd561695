"""The folder of the app's runs: bounded in size, the oldest ended runs are removed first."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from models.training.run_folder import is_claimed
from viz_app.singletons import made_once

RUNS_VARIABLE = "ATTNSCOPE_RUNS"  # environment variable: the folder of --runs
MAX_RUNS_BYTES = 1_000_000_000  # bytes of all runs
MAX_RUNS = 300  # runs
TRAINED_PREFIX = "trained/"  # of a run's name in the model menu


@made_once
def _temporary() -> Path:
    """Return a folder that is deleted when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="attnscope-runs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def root() -> Path:
    """Return the folder of all runs."""
    return Path(os.environ[RUNS_VARIABLE]) if os.environ.get(RUNS_VARIABLE) else _temporary()


def all_runs() -> dict[str, Path]:
    """Return name → folder of the runs that can be opened, the newest last."""
    if not os.environ.get(RUNS_VARIABLE) and not _temporary.cache_info().currsize:
        return {}  # nothing has been trained here, and asking makes no folder
    openable = [
        path.parent for path in root().glob("*/config.json") if not path.parent.is_symlink()
    ]
    return {TRAINED_PREFIX + folder.name: folder for folder in sorted(openable, key=_age)}


def create(stem: str) -> Path:
    """Create the folder of a new run, after making room for it."""
    root().mkdir(parents=True, exist_ok=True)
    make_room()
    for number in range(1, 10_000):
        folder = root() / f"{stem}-{number}"
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise OSError(f"{root()}: there are too many runs of {stem}")


def make_room(max_bytes: int | None = None, max_runs: int | None = None) -> None:
    """Remove ended runs, the oldest first, until the others are within the limits."""
    max_bytes, max_runs = max_bytes or MAX_RUNS_BYTES, max_runs or MAX_RUNS
    folders = sorted((path for path in root().iterdir() if _is_run(path)), key=_age)
    sizes = {folder: _size(folder) for folder in folders}
    for folder in folders:
        if sum(sizes.values()) <= max_bytes and len(sizes) < max_runs:
            return
        if not is_claimed(folder):
            shutil.rmtree(folder, ignore_errors=True)
            del sizes[folder]


def _is_run(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not path.name.startswith(".")


def _age(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:  # removed meanwhile
        return 0.0


def _size(folder: Path) -> int:
    total = 0
    for path in (*folder.glob("*"), *folder.glob("snapshots/*")):
        try:
            total += path.lstat().st_size if path.is_file() else 0
        except OSError:
            continue
    return total
