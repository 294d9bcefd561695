"""How far the loading of a checkpoint has come, told to whoever watches, who may give it up."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from models.errors import CheckpointError

Item = TypeVar("Item")
Watcher = Callable[[str, int, int], None]  # what is counted, how many are done, of how many

TRIED, READ, PLACED, CHECKED, HASHED = (
    "folders tried out",
    "bytes of its weights read",
    "tensors placed",
    "tensors checked",
    "tensors hashed",
)

_watcher: ContextVar[Watcher | None] = ContextVar("watcher of a loading", default=None)


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
