"""The checkpoints that the app may open.

They are the shipped ones, those in the folder of `--models`, and, unless the app is shared, any
folder of this machine. A shared app compares names only with its own list and never with the file
system, so that no name reveals what exists on this machine.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from pathlib import Path

import models
from models import Scope
from models.checkpoint import CheckpointError
from models.checkpoint_files import downloaded_name
from models.hub.files import config
from models.hub.user_module.module import scope_of
from models.printable import printable
from viz_app.session import run_owners
from viz_app.trainers import folders

# environment variables, set by command.py
MODELS_VARIABLE, SHARED_VARIABLE, MODULE_VARIABLE, DTYPE_VARIABLE = (
    "ATTNSCOPE_MODELS",
    "ATTNSCOPE_SHARE",
    "ATTNSCOPE_MODULE",
    "ATTNSCOPE_DTYPE",
)
# keys that name the kind of model, in our config.json and in that of transformers
ARCHITECTURE_KEYS = {"architecture", "architectures", "model_type"}
LANDING_CHECKPOINT = "eng-fra"  # the checkpoint a newcomer sees first
SEARCH_DEPTH = 2  # levels of folders below --models that are searched
MAX_SEARCHED_FOLDERS = 10_000  # below --models; the upper level comes first
NOT_OFFERED = "There is no such model here. Pick one from the list."
MAX_QUOTED_NAME = 200  # characters of a name that are repeated in an error message

_offers_only_shipped: ContextVar[bool] = ContextVar("offers only shipped", default=False)


@contextmanager
def only_shipped() -> Iterator[None]:
    """Offer the shipped checkpoints alone in the block, for pages that are published."""
    token = _offers_only_shipped.set(True)
    try:
        yield
    finally:
        _offers_only_shipped.reset(token)


def is_shared() -> bool:
    """Return True if the app is open to people other than the one at this machine."""
    return bool(os.environ.get(SHARED_VARIABLE))


def module() -> str | None:
    """Return the user's own module given at start-up (path/to/file.py:function), or None."""
    return os.environ.get(MODULE_VARIABLE)


def offered() -> dict[str, str]:
    """Return name → argument of models.load of what the menu offers, in its order."""
    if _offers_only_shipped.get():
        return {name: name for name in models.shipped()}
    names = dict.fromkeys([*filter(None, [module()]), *models.shipped()])
    folders = _folders() | run_owners.offered_runs(is_shared())
    return {name: name for name in names} | {
        name: str(path) for name, path in folders.items() if name not in names
    }


def available() -> list[str]:
    """Return the names of the menu."""
    return list(offered())


def open_found(argument: str) -> Scope:
    """Open what `folder` returned for a name: a checkpoint, or the user's own module.

    Raises:
        CheckpointError: it cannot be opened.
    """
    if argument != module():
        return models.load(argument, dtype=os.environ.get(DTYPE_VARIABLE))
    try:
        return scope_of(argument)
    except Exception as error:  # user code, which may raise anything
        raise CheckpointError(f"{argument}: {type(error).__name__}: {error}") from error


def folder(name: str) -> str:
    """Return the argument of models.load for a name that was picked, typed or in a URL.

    Raises:
        CheckpointError: there is no such checkpoint, or it may not be opened.
    """
    if name in models.shipped() or name == module():
        return name
    if name in (folders := _folders()):
        return str(folders[name])
    if name in (trained := run_owners.offered_runs(is_shared())):
        return str(trained[name])
    if is_shared():
        raise CheckpointError(NOT_OFFERED)
    try:
        path = Path(name).expanduser()
        if path.is_dir():
            return str(path)
    except (OSError, RuntimeError, ValueError):  # too long, unknown user, invalid character
        pass
    if _leads_out(name):
        raise CheckpointError(
            f"{name} leads out of the folder of --models, or holds a link that does; type the path it leads to"
        )
    short = name if len(name) <= MAX_QUOTED_NAME else f"{name[:MAX_QUOTED_NAME]}…"
    raise CheckpointError(
        f"No model called “{short}”. Pick one from the list, or type the path of a folder."
    )


def why_refused(name: str) -> str:
    """Return why `folder` refuses this name, in one line; "" if it accepts it."""
    try:
        folder(name)
    except CheckpointError as error:
        return error_message(error)
    return ""


def error_message(error: Exception) -> str:
    """Return the message of an error in one line; a shared app hides the paths of its folders."""
    message = str(error)
    for root in filter(
        None, map(os.environ.get, (MODELS_VARIABLE, folders.RUNS_VARIABLE, run_owners.WATCHED))
    ):
        message = message.replace(root, Path(root).name) if is_shared() else message
    return printable(message)


def is_search_cut() -> bool:
    """Return True if the folder of --models is offered and has more folders than are searched."""
    is_given = bool(os.environ.get(MODELS_VARIABLE)) and not _offers_only_shipped.get()
    return is_given and len(_searched_folders()) > MAX_SEARCHED_FOLDERS


def _folders() -> dict[str, Path]:
    """Return the checkpoints in the folder of --models: its name and the path below it → folder.

    Folders that are, or contain, links out of it are left out, and so are parts of models, such as
    1_Pooling of sentence-transformers.
    """
    return {name: path for name, path in _candidates().items() if _is_offered(path)}


def _is_offered(folder: Path) -> bool:
    root = Path(os.environ.get(MODELS_VARIABLE, "")).resolve()
    return _is_within(folder, root) and _is_model(folder)


def _candidates() -> dict[str, Path]:
    """Return all folders with a config.json in the folder of --models, by name.

    For a repository in a cache of Hugging Face, it is the newest download.
    """
    if not (models_folder := os.environ.get(MODELS_VARIABLE)):
        return {}
    root = Path(models_folder).resolve()
    searched = _searched_folders()[:MAX_SEARCHED_FOLDERS]
    configured = sorted(path for path in searched if os.path.exists(path / "config.json"))
    downloads = [path for path in configured if downloaded_name(path)]
    by_name = {downloaded_name(path): path for path in sorted(downloads, key=_changed_at)}
    by_name |= {
        path.relative_to(root).as_posix(): path for path in configured if not downloaded_name(path)
    }
    return {f"{root.name}/{name}": path for name, path in by_name.items()}


def _searched_folders() -> list[Path]:
    """Return the folders below --models, and the downloads of a cache of Hugging Face, by level.

    There is one more than MAX_SEARCHED_FOLDERS if there are too many.
    """
    level, folders = [Path(os.environ.get(MODELS_VARIABLE, "")).resolve()], []
    for depth in range(SEARCH_DEPTH + 1):
        parents = level if depth < SEARCH_DEPTH else filter(_holds_downloads, level)
        below = (path for parent in parents for path in _folders_in(parent))
        level = list(islice(below, MAX_SEARCHED_FOLDERS + 1 - len(folders)))
        folders += level
    return folders


def _holds_downloads(folder: Path) -> bool:
    return folder.name == "snapshots" and folder.parent.name.startswith("models--")


def _folders_in(folder: Path) -> list[Path]:
    """Return the folders in a folder, sorted by name; none if it cannot be read."""
    try:
        return sorted(path for path in _links_and_folders(folder) if path.is_dir())
    except OSError:
        return []


def _changed_at(folder: Path) -> float:
    """Return when a folder was last changed, in s; 0 if it is gone by now."""
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0


def _leads_out(name: str) -> bool:
    """Return True if this folder below --models is not offered because of a link out of it."""
    return name in (candidates := _candidates()) and not _is_within(
        candidates[name], Path(os.environ[MODELS_VARIABLE]).resolve()
    )


def _is_model(folder: Path) -> bool:
    """Return True if the configuration names a kind of model or is unreadable.

    An unreadable one is reported when it is picked.
    """
    try:
        return bool(config(folder).keys() & ARCHITECTURE_KEYS)
    except CheckpointError:
        return True


def _is_within(path: Path, root: Path) -> bool:
    try:
        may_lead_out = [path, *_links_and_folders(path), *_links_and_folders(path / "snapshots")]
        return all(file.resolve().is_relative_to(root) for file in may_lead_out)
    except (OSError, RuntimeError):  # a link in a circle
        return False


def _links_and_folders(folder: Path) -> list[Path]:
    """Return the entries of a folder that are not plain files; none if there is no such folder."""
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return [Path(entry) for entry in entries if not entry.is_file(follow_symlinks=False)]
