"""A fair queue for the trainers of all server processes.

It is a folder with a locked file for each run that waits or trains.
"""

import os
import secrets
import time
from pathlib import Path

from filelock import FileLock, Timeout

QUEUE_FOLDER = ".queue"


class Ticket:
    """A place in the queue, from now until it is given up or this process ends."""

    def __init__(self, root: Path) -> None:
        self._folder = root / QUEUE_FOLDER
        self._folder.mkdir(parents=True, exist_ok=True)
        name = f"{time.time_ns():020d}-{os.getpid()}-{secrets.token_hex(4)}"
        self.path = self._folder / name
        self._lock = FileLock(self.path, thread_local=False)
        self._lock.acquire()

    @property
    def before(self) -> int:
        """The number of runs that came earlier and have not ended."""
        earlier = (path for path in self._folder.iterdir() if path.name < self.path.name)
        return sum(map(_is_held, earlier))

    def give_up(self) -> None:
        self._lock.release()
        self.path.unlink(missing_ok=True)


def count_waiting(root: Path) -> int:
    """Return the number of runs that wait or train."""
    folder = root / QUEUE_FOLDER
    return sum(map(_is_held, folder.iterdir())) if folder.is_dir() else 0


def _is_held(path: Path) -> bool:
    """Return True if the process of a ticket holds it; remove the ticket of one that was killed."""
    lock = FileLock(path, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        return True
    except OSError:  # given up meanwhile
        return False
    lock.release()
    path.unlink(missing_ok=True)
    return False
