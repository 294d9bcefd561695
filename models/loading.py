"""How far the loading of a checkpoint has come, told to whoever watches, who may give it up; and whose turn it is to load."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from models.errors import CheckpointError

Item = TypeVar("Item")
Watcher = Callable[[str, int, int], None]  # what is counted, how many are done, of how many

WAITED, TRIED, READ, PLACED, CHECKED, HASHED = (
    "turns waited for",
    "folders tried out",
    "bytes of its weights read",
    "tensors placed",
    "tensors checked",
    "tensors hashed",
)

_POLL = 0.1  # s between two looks at whether anybody still waits

_watcher: ContextVar[Watcher | None] = ContextVar("watcher of a loading", default=None)


_turn: ContextVar["_Turn | None"] = ContextVar("turn of a loading", default=None)


class Cancelled(CheckpointError):
    """Nobody waits for this checkpoint any more."""


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """What is loaded in this thread meanwhile is told to the watcher; what that raises ends the loading."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def is_watched() -> bool:
    return _watcher.get() is not None


def report_progress(what: str, done: int, total: int) -> None:
    """So much is done."""
    if (watcher := _watcher.get()) is not None:
        watcher(what, done, total)


def with_progress(what: str, items: Iterable[Item], total: int) -> Iterator[Item]:
    """The items, each told when it is asked for the next."""
    report_progress(what, 0, total)
    for done, item in enumerate(items, 1):
        yield item
        report_progress(what, done, total)


class _Turn:
    """One of several turns to load, while it is held."""

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
    """Load in this thread when it is its turn."""
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
    """Let another thread load meanwhile: this one only waits. After an error it loads no more, and needs no turn."""
    turn = _turn.get()
    if turn is not None:
        turn.give()
    yield
    if turn is not None:
        turn.take()
