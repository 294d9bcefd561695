"""The trainers of this server: which run starts, and which ends because its session is gone."""

import logging
import os
import threading
import time
from collections.abc import Callable

from viz_app.trainers import folders, tickets
from viz_app.trainers.run import PAUSED, WAITING, TrainingRun
from viz_app.trainers.settings import RunSettings
from viz_app.trainers.tickets import Ticket

# environment variable: the number of trainers (--trainers)
TRAINERS_VARIABLE = "ATTNSCOPE_TRAINERS"
MAX_TRAINERS = 16  # trainers
RUNS_LOOK_SECONDS = 0.25  # s between two looks at the runs
ORPHAN_SECONDS = 60.0  # s after which the run of a closed page ends
PAUSED_SECONDS = 60.0  # s after which a paused run ends, if others wait
MAX_WAITING = 200  # runs in the queue
FULL = f"{MAX_WAITING} runs are waiting already; try again later"
_log = logging.getLogger(__name__)


def trainers() -> int:
    """Return how many runs train at the same time, over all processes of the server."""
    return int(os.environ.get(TRAINERS_VARIABLE, "1"))


class Pool:
    """The runs of this process that wait or train, at most one for each session.

    `is_there` returns True while a session's page is open.
    """

    def __init__(self, n: int, is_there: Callable[[str], bool]) -> None:
        self.n, self._is_there = n, is_there
        self._runs: dict[str, TrainingRun] = {}  # by their session
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def begin(self, settings: RunSettings, owner: str, site: str = "") -> TrainingRun:
        """Put a new run into the queue in place of the session's previous one.

        Raises:
            ValueError: The settings are bad, or the queue is full.
        """
        if problems := settings.problems():
            raise ValueError("; ".join(problems.values()))
        run = TrainingRun(settings, owner, site=site)
        self.submit(run)
        return run

    def submit(self, run: TrainingRun) -> None:
        """Put a run into the queue; a stopped run continues when its turn comes.

        Raises:
            ValueError: The queue is full.
        """
        with self._lock:
            if (last := self._runs.pop(run.owner, None)) is not None and last is not run:
                last.stop()
            if self.n < 1:
                raise ValueError("this app has no trainers")
            if tickets.count_waiting(folders.root()) >= MAX_WAITING:
                raise ValueError(FULL)
            run.state, run.message, run.ticket = WAITING, "", Ticket(folders.root())
            self._runs[run.owner], run.seen = run, time.monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, daemon=True)
                self._thread.start()

    def place(self, run: TrainingRun) -> int:
        """Return how many runs must end before this one begins."""
        ticket = run.ticket
        return max(0, ticket.before - self.n + 1) if ticket and run.state == WAITING else 0

    def _look(self) -> None:
        while True:
            with self._lock:
                runs = list(self._runs.items())
            for owner, run in runs:
                try:
                    self._advance(owner, run)
                except Exception:  # the other runs continue
                    _log.exception("a run could not be advanced")
            time.sleep(RUNS_LOOK_SECONDS)

    def _advance(self, owner: str, run: TrainingRun) -> None:
        with self._lock:  # a run that is resumed meanwhile is active again
            if not run.is_active:
                if self._runs.get(owner) is run:
                    del self._runs[owner]
                return
        now = time.monotonic()
        if self._is_there(owner):
            run.seen = now
        if now - run.seen > ORPHAN_SECONDS or self._has_paused_too_long(run, now):
            run.stop()
        elif run.state == WAITING and (ticket := run.ticket):
            try:
                if ticket.before < self.n:
                    run.start()
            except OSError as error:
                run.fail(f"{error.strerror or error}")
            except Exception as error:  # the next run begins
                _log.exception("a run could not begin")
                run.fail(f"{error}")

    def _has_paused_too_long(self, run: TrainingRun, now: float) -> bool:
        return (
            run.state == PAUSED
            and bool(run.paused_since)
            and now - run.paused_since > PAUSED_SECONDS
            and tickets.count_waiting(folders.root()) > self.n
        )
