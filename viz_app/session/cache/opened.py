"""Opened checkpoints and what is made of their weights, kept under their folder and the state of its files."""

from collections.abc import Callable, Collection, Hashable
from pathlib import Path

import models
from models import Scope
from models.checkpoint import Description
from models.checkpoint_files import FILES, snapshot_path
from models.hub import load as hub
from models.opening import describe, shipped_folder
from models.runs.spec import ModelRef
from viz_app import checkpoints
from viz_app.session.cache import store
from viz_app.session.cache.store import Value, cached


def scope(name: str) -> Scope:
    """The opened checkpoint of this shipped name or folder, as its files are now. Raises models.checkpoint.CheckpointError."""
    return store.kept.get(opened_as(name), lambda: checkpoints.open_scope(name), spared=True)


def opened_as(name: str) -> Hashable:
    """What an opened checkpoint is kept under."""
    return "opened", name, _files(name, FILES)


def is_open(name: str) -> bool:
    """Return True if `scope` has it without opening it."""
    return opened_as(name) in store.kept


def description(name: str) -> Description:
    """What the checkpoint of this shipped name or folder says it is; it is not opened. Raises models.checkpoint.CheckpointError."""
    return store.kept.get(("described", name, _files(name, FILES)), lambda: describe(name))


def checkpoint_drawing(name: str, what: Hashable, make: Callable[[], Value]) -> Value:
    """What is drawn of a checkpoint that is not opened, as its files are now. Raises what `make` raises."""
    return store.kept.get(("drawn of", what, name, _files(name, FILES)), make)


def changed_model(scope: Scope, ref: ModelRef) -> Scope:
    """Return this checkpoint with the changes of `ref`. Raises models.checkpoint.CheckpointError."""
    return ref.open(
        lambda _, snapshot: scope if snapshot is None else _snapshot(scope, snapshot),
        lambda scope, change, make: cached(scope, change, make=make, spared=True),
    )


def _snapshot(scope: Scope, step: int) -> Scope:
    path = str(scope.path)
    files = _files(path, (*FILES[:-1], snapshot_path(Path(), step)))
    return store.kept.get(
        ("opened", path, step, files), lambda: models.load(path, snapshot=step), spared=True
    )


def _files(name: str, files: Collection[str | Path]) -> tuple[tuple[int, ...], ...]:
    """Changes when one of a checkpoint's files is replaced or written: other times, another size or another file. Only who
    writes into the very same file and also sets back the system's own clock of changes goes unnoticed."""
    try:
        folder = shipped_folder() / name
        folder = folder if folder.is_dir() else Path(name).expanduser()
        found = [
            path.stat()
            for path in (folder / file for file in files)
            if path.exists() or not hub.is_folder(folder)
        ]
    except (
        OSError,
        ValueError,
        RuntimeError,
    ):  # not there, or no path at all; models.load says what is wrong
        return ()
    return tuple((one.st_mtime_ns, one.st_ctime_ns, one.st_size, one.st_ino) for one in found)
