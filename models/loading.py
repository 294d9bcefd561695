"""Progress, cancellation and turn-taking while checkpoints load."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from models.errors import CheckpointError

Item = TypeVar("Item")
Watcher = Callable[[str, int, int], None]  # unit counted, number done, total

WAITED, TRIED, READ, PLACED, CHECKED, HASHED = (
    "turns waited for",
    "folders tried out",
    "bytes of its weights read",
    "tensors placed",
    "tensors checked",
    "tensors hashed",
)

_POLL = 0.1  # seconds between two checks for cancellation

_watcher: ContextVar[Watcher | None] = ContextVar("watcher of a loading", default=None)


_turn: ContextVar["_Turn | None"] = ContextVar("turn of a loading", default=None)


class Cancelled(CheckpointError):
    """Loading stopped because no session waits for this checkpoint any more."""


@contextmanager
def report_loading(watcher: Watcher) -> Iterator[None]:
    """Report the progress of loading in this thread to the watcher.

    An exception raised by the watcher ends the loading.
    """
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def is_watched() -> bool:
    return _watcher.get() is not None


def report_progress(what: str, done: int, total: int) -> None:
    """Report `done` of `total` to the active progress callback, if any."""
    if (watcher := _watcher.get()) is not None:
        watcher(what, done, total)


def with_progress(what: str, items: Iterable[Item], total: int) -> Iterator[Item]:
    """Yield the items, reporting each as done when the next one is requested."""
    report_progress(what, 0, total)
    for done, item in enumerate(items, 1):
        yield item
        report_progress(what, done, total)


class _Turn:
    """A place in the queue of threads that load, taken and given back."""

    def __init__(self, turns: threading.Semaphore) -> None:
        self._turns, self._is_held = turns, False

    def take(self) -> None:
        while not self._turns.acquire(timeout=_POLL):
            report_progress(WAITED, 0, 1)
        self._is_held = True

    def give(self) -> None:
        if self._is_held:
            self._is_held = False
            self._turns.release()


@contextmanager
def in_turn(turns: threading.Semaphore) -> Iterator[None]:
    """Load in this thread once one of the turns is free."""
    turn = _Turn(turns)
    token = _turn.set(turn)
    try:
        turn.take()
        yield
    finally:
        turn.give()
        _turn.reset(token)


@contextmanager
def out_of_turn() -> Iterator[None]:
    """Release the turn while this thread only waits, so that another thread can load.

    After an error the turn is not taken again: this thread loads nothing more.
    """
    turn = _turn.get()
    if turn is not None:
        turn.give()
    yield
    if turn is not None:
        turn.take()
