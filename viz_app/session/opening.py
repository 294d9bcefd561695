"""Checkpoints that are opened in the background: each once, however many sessions wait for it, and given up when none does any
more. What stands on the screen stays until the new one does."""

import threading
from collections.abc import Hashable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from models import CheckpointError, Scope, loading
from viz_app.session import cache

AT_ONCE = 2  # that are opened side by side; the others wait for their turn
UNDER_WAY = 32  # that wait, for their turn or for a folder of others to be tried out
PATIENCE = 0.3  # s that a page waits for one before it says how far that has come
# what is counted while one is loaded → from where to where the bar goes meanwhile
_SHARES = {
    loading.READ: (0.0, 0.7), loading.PLACED: (0.0, 0.7), loading.CHECKED: (0.7, 0.8), loading.HASHED: (0.8, 1.0),
}  # fmt: skip
_BYTES = 2**20

_workers = ThreadPoolExecutor(UNDER_WAY, thread_name_prefix="opening")
_turns = threading.Semaphore(AT_ONCE)
_under_way: dict[Hashable, "Opening"] = {}
_lock = threading.Lock()


class Opening:
    """One checkpoint that is being opened, or could not be."""

    def __init__(self, name: str, key: Hashable) -> None:
        self.name, self.key = name, key
        self.waiting: set[str] = set()  # tokens of the sessions that do
        self.took_long = False  # longer than PATIENCE
        self._progress = ("", 0, 0)
        self._abandoned = threading.Event()  # nobody waits
        self.future: Future[Scope] = _workers.submit(self._open)

    @property
    def share(self) -> float:
        """How far it has come, from 0 to 1."""
        what, done, total = self._progress
        start, end = _SHARES.get(what, (0.0, 0.0))
        return start + (end - start) * min(1.0, done / max(1, total))

    @property
    def progress(self) -> str:
        """The same in words."""
        what, done, total = self._progress
        if what == loading.WAITED:
            return "Waiting for another model to open …"
        if not what:
            return "Opening the model …"
        if what == loading.TRIED:
            return "Checking that the model is safe to open …"
        if what == loading.READ:
            return f"{done / _BYTES:,.1f} of {total / _BYTES:,.1f} MB of its weights read"
        return f"{done:,} of {total:,} {what}"

    def ready(self, seconds: float) -> bool:
        """Return True if it is opened, or has failed, after at most so long."""
        is_ready = bool(wait([self.future], seconds).done)
        self.took_long |= not is_ready
        return is_ready

    def give_up(self, session: str) -> None:
        """This session waits no more."""
        with _lock:
            self.waiting.discard(session)
            if self.waiting:
                return
            self._abandoned.set()
        _forget(self)
        self.future.cancel()

    def _open(self) -> Scope:
        """Opened, it is no longer under way: whoever waits holds it, and with nobody it goes."""
        try:
            scope = self._scope()
        except CheckpointError as error:
            said = str(error)
        else:
            _forget(self)
            return scope
        raise CheckpointError(said)  # without the frames of the loading, which hold what was read

    def _scope(self) -> Scope:
        with loading.watched(self._watch):
            while True:
                try:
                    with loading.in_turn(_turns):
                        self._progress = ("", 0, 0)
                        return cache.scope(self.name)
                except loading.Cancelled:
                    if (
                        self._abandoned.is_set()
                    ):  # else it was given up by those who waited before these
                        raise

    def _watch(self, what: str, done: int, total: int) -> None:
        if self._abandoned.is_set():
            raise loading.Cancelled(f"{self.name}: given up")
        self._progress = what, done, total


def ask(name: str, session: str) -> Opening | None:
    """What opens this checkpoint for a session, from now on if nothing did; None where it stands open."""
    key = cache.opened_as(name)
    with _lock:
        if (found := _under_way.get(key)) is None:
            if cache.is_open(name):
                return None
            found = _under_way[key] = Opening(name, key)
        found.waiting.add(session)
        return found


def result(opening: Opening) -> Scope:
    """What is ready. What has failed is opened anew when it is asked for again, unless it took long. Raises CheckpointError."""
    if not opening.took_long:
        _forget(opening)
    return opening.future.result()


def _forget(opening: Opening) -> None:
    with _lock:
        if _under_way.get(opening.key) is opening:
            del _under_way[opening.key]


def try_again() -> None:
    """What has failed is opened anew when it is asked for."""
    with _lock:
        for key in [key for key, opening in _under_way.items() if opening.future.done()]:
            del _under_way[key]
