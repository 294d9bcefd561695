"""Background opening of checkpoints: once for all waiting sessions, cancelled if none is left.

The screen keeps its content until the new checkpoint is ready.
"""

import threading
from collections.abc import Hashable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import count

from models import CheckpointError, Scope, loading
from viz_app.session import cache

MAX_OPENINGS = 2  # checkpoints opened at the same time; others wait for their turn
MAX_WAITING_OPENINGS = (
    32  # openings that may wait, for their turn or for the safety check of a folder
)
BAR_DELAY = 0.3  # s that a page waits before it shows the progress bar
# stage of loading → the range of the progress bar that it fills
_SHARES = {
    loading.READ: (0.0, 0.7), loading.PLACED: (0.0, 0.7), loading.CHECKED: (0.7, 0.8), loading.HASHED: (0.8, 1.0),
}  # fmt: skip
_BYTES = 2**20

_workers = ThreadPoolExecutor(MAX_WAITING_OPENINGS, thread_name_prefix="opening")
_turns = threading.Semaphore(MAX_OPENINGS)
_under_way: dict[Hashable, "Opening"] = {}
_numbers = count(1)
_lock = threading.Lock()


class Opening:
    """A checkpoint that is being opened, or that failed to open."""

    def __init__(self, name: str, key: Hashable) -> None:
        self.name, self.key, self.number = name, key, next(_numbers)
        self.waiting: set[str] = set()  # tokens of the waiting sessions
        self.took_long = False  # longer than BAR_DELAY
        self._progress = ("", 0, 0)
        self._abandoned = threading.Event()  # no session waits any more
        self.future: Future[Scope] = _workers.submit(self._open)

    @property
    def share(self) -> float:
        """The progress, from 0 to 1."""
        what, done, total = self._progress
        start, end = _SHARES.get(what, (0.0, 0.0))
        return start + (end - start) * min(1.0, done / max(1, total))

    @property
    def progress(self) -> str:
        """The progress in words."""
        what, done, total = self._progress
        if what == loading.WAITED:
            return "Waiting for another model to open…"
        if not what:
            return "Loading the model…"
        if what == loading.TRIED:
            return "Checking that the model is safe to open…"
        if what == loading.READ:
            return f"{done / _BYTES:,.1f} of {total / _BYTES:,.1f} MB of its weights read"
        return f"{done:,} of {total:,} {what}"

    def ready(self, seconds: float) -> bool:
        """Return True if the opening has ended, after waiting at most this many seconds."""
        is_ready = bool(wait([self.future], seconds).done)
        self.took_long |= not is_ready
        return is_ready

    def give_up(self, session: str) -> None:
        """Stop waiting for this session; cancel the opening if no other session waits."""
        with _lock:
            self.waiting.discard(session)
            if self.waiting:
                return
            self._abandoned.set()
            _remove(self)  # under the same lock, so that no session joins it any more
        self.future.cancel()

    def _open(self) -> Scope:
        """Open the checkpoint; from then on the waiting sessions alone keep it alive.

        Raises:
            CheckpointError: it could not be opened.
        """
        try:
            scope = self._scope()
        except CheckpointError as error:
            message = str(error)
        else:
            _forget(self)
            return scope
        # a new error, whose traceback does not keep the loaded tensors alive
        raise CheckpointError(message)

    def _scope(self) -> Scope:
        with loading.report_loading(self._watch):
            while True:
                try:
                    with loading.in_turn(_turns):
                        self._progress = ("", 0, 0)
                        return cache.scope(self.name)
                except loading.Cancelled:
                    if self._abandoned.is_set():  # else other sessions gave up the shared load
                        raise

    def _watch(self, what: str, done: int, total: int) -> None:
        if self._abandoned.is_set():
            raise loading.Cancelled(f"{self.name}: given up")
        self._progress = what, done, total


def opening_for(name: str, session: str) -> Opening | None:
    """Return the opening of this checkpoint for a session, started if need be; None if open."""
    key = cache.opened_as(name)
    with _lock:
        if (opening := _under_way.get(key)) is None:
            if cache.is_open(name):
                return None
            opening = _under_way[key] = Opening(name, key)
        opening.waiting.add(session)
        return opening


def result(opening: Opening) -> Scope:
    """Return the opened checkpoint.

    A failed opening can be retried at once unless it took long.

    Raises:
        CheckpointError: the checkpoint could not be opened.
    """
    if not opening.took_long:
        _forget(opening)
    return opening.future.result()


def _forget(opening: Opening) -> None:
    with _lock:
        _remove(opening)


def _remove(opening: Opening) -> None:
    if _under_way.get(opening.key) is opening:
        del _under_way[opening.key]


def try_again() -> None:
    """Forget all failed openings, so that they are retried when next requested."""
    with _lock:
        for key in [key for key, opening in _under_way.items() if opening.future.done()]:
            del _under_way[key]
