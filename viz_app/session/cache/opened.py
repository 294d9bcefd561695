"""Opened checkpoints and modified models, cached under their folder and the state of its files."""

import os
from collections.abc import Callable, Collection, Hashable
from itertools import islice
from pathlib import Path

import models
from models import Scope, loading
from models.checkpoint import Description
from models.checkpoint_files import CHECKPOINT_FILES, snapshot_path
from models.hub import load as hub
from models.opening import describe, shipped_folder
from models.runs.spec import ModelRef
from viz_app import checkpoints
from viz_app.session.cache import store
from viz_app.session.cache.store import Stored, cached

MAX_FOLDER_FILES = 1000  # files of a folder of transformers that are looked at
# of the files that the library reads, so that a growing log does not reopen the model
LIBRARY_SUFFIXES = {
    ".json",
    ".safetensors",
    ".txt",
    ".model",
    ".spm",
    ".bpe",
    ".jinja",
    ".tokenizer",
}


def scope(name: str) -> Scope:
    """Return the opened checkpoint of this shipped name or folder, as its files are now.

    If another session was opening it and has given up, it is opened again.

    Raises:
        CheckpointError: it cannot be opened.
    """
    while True:
        try:
            return store.cache_store.get(
                opened_as(name), lambda: checkpoints.open_found(name), is_shared=True
            )
        except loading.Cancelled:
            if loading.is_watched():  # a background opening, which may itself have been cancelled
                raise


def opened_as(name: str) -> Hashable:
    """Return the cache key of an opened checkpoint."""
    return "opened", name, _files(name, CHECKPOINT_FILES)


def is_open(name: str) -> bool:
    """Return True if `scope` can return it without opening it."""
    return opened_as(name) in store.cache_store


def description(name: str) -> Description:
    """Return the description of the checkpoint of this shipped name or folder without opening it.

    Raises:
        CheckpointError: it cannot be read.
    """
    return store.cache_store.get(
        ("described", name, _files(name, CHECKPOINT_FILES)), lambda: describe(name)
    )


def checkpoint_drawing(name: str, what: Hashable, make: Callable[[], Stored]) -> Stored:
    """Return what `make` draws of an unopened checkpoint, cached until its files change.

    Errors of `make` are raised.
    """
    return store.cache_store.get(("drawn of", what, name, _files(name, CHECKPOINT_FILES)), make)


def changed_model(scope: Scope, ref: ModelRef) -> Scope:
    """Return this checkpoint with the changes of `ref`.

    Raises:
        CheckpointError: they cannot be made.
    """
    return ref.open(
        lambda _, snapshot: scope if snapshot is None else _snapshot(scope, snapshot),
        lambda scope, change, make: cached(scope, change, make=make, is_shared=True),
    )


def _snapshot(scope: Scope, step: int) -> Scope:
    path = str(scope.path)
    files = _files(path, (*CHECKPOINT_FILES[:-1], snapshot_path(Path(), step)))
    return store.cache_store.get(
        ("opened", path, step, files), lambda: models.load(path, snapshot=step), is_shared=True
    )


def _of_library(folder: Path) -> list[os.stat_result]:
    with os.scandir(folder) as entries:
        listed = list(islice(entries, MAX_FOLDER_FILES))
    listed.sort(key=lambda entry: entry.name)
    read = (entry for entry in listed if Path(entry.name).suffix in LIBRARY_SUFFIXES)
    return [entry.stat() for entry in read if entry.is_file()]


def _files(name: str, files: Collection[str | Path]) -> tuple[tuple[int, ...], ...]:
    """Return the state of a checkpoint's files: it changes if one is replaced or rewritten.

    It holds times, size and inode; of a folder of transformers those of all its files, as weights
    in parts and the settings of tokenizer, images and generation. Only an overwrite in place that
    also sets back the file's ctime would be missed.
    """
    try:
        folder = shipped_folder() / name
        folder = folder if folder.is_dir() else Path(name).expanduser()
        try:
            stats = [(folder / file).stat() for file in files]
        except FileNotFoundError:
            if not hub.is_folder(folder):
                return ()
            stats = _of_library(folder)
    # not a path at all; models.load reports the error
    except (OSError, ValueError, RuntimeError):
        return ()
    return tuple((stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino) for stat in stats)
