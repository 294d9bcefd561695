"""The folder that all server processes of an app share; it is removed when the app ends."""

import atexit
import os
import shutil
import tempfile
import threading
from pathlib import Path

VARIABLE = "ATTNSCOPE_COMMON"  # environment variable, which the front process sets for its workers
_lock = threading.Lock()
_folders: list[str] = []  # by this process


def common_folder() -> Path:
    """Return the folder, made by the first process that asks."""
    with _lock:
        if VARIABLE not in os.environ:
            os.environ[VARIABLE] = tempfile.mkdtemp(prefix="attnscope-common-")
            _folders.append(os.environ[VARIABLE])
            atexit.register(remove_own)
        return Path(os.environ[VARIABLE])


def remove_own() -> None:
    """Remove the folder if this process made it."""
    while _folders:
        shutil.rmtree(_folders.pop(), ignore_errors=True)


def remove() -> None:
    """Remove the folder after the process that made it has ended."""
    shutil.rmtree(os.environ[VARIABLE], ignore_errors=True)
