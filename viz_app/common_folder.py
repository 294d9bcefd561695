"""The folder that all server processes of an app share; it goes when the app ends."""

import atexit
import os
import shutil
import tempfile
import threading
from pathlib import Path

_VARIABLE = "ATTNSCOPE_COMMON"  # environment variable, which the front process sets for its workers
_lock = threading.Lock()


def common_folder() -> Path:
    """Return the folder, made by the first process that asks."""
    with _lock:
        if _VARIABLE not in os.environ:
            os.environ[_VARIABLE] = tempfile.mkdtemp(prefix="attnscope-common-")
            atexit.register(remove)
        return Path(os.environ[_VARIABLE])


def remove() -> None:
    """Remove the folder and what is in it."""
    shutil.rmtree(os.environ[_VARIABLE], ignore_errors=True)
