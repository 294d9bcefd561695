"""Which checkpoints this app opens: the shipped ones, those under the folder of `--models`, and, unless it is shared, any
folder of this machine.

A shared app compares a name with the list of what it offers and never with the file system, so that no name, whatever it
looks like, says what lies on this machine.
"""

import os
from pathlib import Path

import models
from models import Scope
from models.checkpoint import CheckpointError
from models.checkpoint_files import FILES
from models.hub.files import config
from models.hub.own_module import scope_of
from models.printable import printable

# environment variables, set by command.py
MODELS, SHARED, MODULE, DTYPE = (
    "ATTNSCOPE_MODELS",
    "ATTNSCOPE_SHARE",
    "ATTNSCOPE_MODULE",
    "ATTNSCOPE_DTYPE",
)
KINDS = {
    "architecture",
    "architectures",
    "model_type",
}  # what a configuration says of a model, by ours and by transformers
DEPTH = 2  # folders below that of --models in which a checkpoint may lie
NOT_OFFERED = "There is no such model here. Pick one of the list."
LONGEST_NAME = 200  # characters of a name that are repeated to whoever typed it


def is_shared() -> bool:
    """Is the app open to others than the person at this machine?"""
    return bool(os.environ.get(SHARED))


def module() -> str | None:
    """The module that its owner named when the app was started, as path/to/file.py:function."""
    return os.environ.get(MODULE)


def available() -> list[str]:
    """The names to pick from."""
    return [*filter(None, [module()]), *models.shipped(), *_own()]


def open_scope(named: str) -> Scope:
    """What `folder` gave for a name, opened: a checkpoint, or the owner's module. Raises CheckpointError."""
    if named != module():
        return models.load(named, dtype=os.environ.get(DTYPE))
    try:
        return scope_of(named)
    except Exception as error:  # it is the owner's code, and may raise anything
        raise CheckpointError(f"{named}: {type(error).__name__}: {error}") from error


def folder(name: str) -> str:
    """What models.load takes for a name that was picked, typed or in a URL. Raises CheckpointError."""
    if name in models.shipped() or name == module():
        return name
    if name in (own := _own()):
        return str(own[name])
    if is_shared():
        raise CheckpointError(NOT_OFFERED)
    try:
        path = Path(name).expanduser()
        if path.is_dir():
            return str(path)
    except (
        OSError,
        RuntimeError,
        ValueError,
    ):  # too long, no such user, a character that no path has
        pass
    if _leads_out(name):
        raise CheckpointError(
            f"{name} leads out of the folder of --models, or holds a link that does; type the path it leads to"
        )
    short = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"
    raise CheckpointError(
        f"{short}: neither a folder nor a shipped checkpoint ({', '.join(models.shipped())})"
    )


def is_there(name: str) -> bool:
    """Return True if a name is that of something to open."""
    try:
        folder(name)
    except CheckpointError:
        return False
    return True


def error_message(error: Exception) -> str:
    """Return what an error says, in one line, without the place on this machine where the shared models are."""
    root, message = os.environ.get(MODELS), str(error)
    return printable(message.replace(root, Path(root).name) if root and is_shared() else message)


def _own() -> dict[str, Path]:
    """The checkpoints under the folder of --models by name: that folder's and the path below it. What is a link out of it,
    or has a file that is one, is none of them, nor is a part of a model, such as 1_Pooling of sentence-transformers."""
    root = Path(os.environ.get(MODELS, "")).resolve()
    return {
        name: path for name, path in _found().items() if _is_within(path, root) and _is_model(path)
    }


def _found() -> dict[str, Path]:
    """All folders with a configuration under that of --models, by name."""
    if not (given := os.environ.get(MODELS)):
        return {}
    root = Path(given).resolve()
    found = sorted(
        config.parent
        for depth in range(DEPTH)
        for config in root.glob("*/" * (depth + 1) + "config.json")
    )
    return {f"{root.name}/{path.relative_to(root).as_posix()}": path for path in found}


def _leads_out(name: str) -> bool:
    """Return True if this is the name of what lies under the folder of --models and is not offered for a link out of it."""
    return name in (found := _found()) and not _is_within(
        found[name], Path(os.environ[MODELS]).resolve()
    )


def _is_model(folder: Path) -> bool:
    """Return True if its configuration says what kind of model this is. One that cannot be read is said to be so when it is picked."""
    try:
        return bool(config(folder).keys() & KINDS)
    except CheckpointError:
        return True


def _is_within(path: Path, root: Path) -> bool:
    files = [path, *(path / name for name in FILES), *path.glob("*"), *path.glob("snapshots/*")]
    try:
        return all(file.resolve().is_relative_to(root) for file in files)
    except (OSError, RuntimeError):  # a link in a circle
        return False
