"""A run that another process controls: commands as lines on stdin, reports as JSON lines on stdout.

The commands are `pause`, `go`, `step`, `speed N` (steps a second, 0: no limit), `watch SITE` and
`stop`. The run ends like one stopped by Ctrl-C when its stdin ends, so that it never outlives the
other process. Commands and reports change when steps are taken, never what they compute.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TextIO

from models.training.fixed_example import FixedExample
from models.training.recipe import StepRecord
from models.training.trainer import Trainer

STEP_REPORT_SECONDS = 0.2  # s between two reports
CONTROLLED_WATCH_SHARE = 0.07  # of the processor time, at most, for watching the example
MAX_COMMAND = 1000  # characters of a command
SOON = 0.15  # s in which a pause is answered, even if a step or a validation is under way


class Controls:
    """The latest command, read by a separate thread."""

    def __init__(self, commands: TextIO, report: Callable[..., None]) -> None:
        self._commands, self._report = commands, report
        self._changed = threading.Condition()
        self._paused, self._steps = False, 0  # steps to take while paused
        self._interval, self._next = 0.0, 0.0  # s between steps; when the next one is due
        self._waits = False
        self.site, self.stopping = "", False
        threading.Thread(target=self._read, daemon=True).start()

    def may_step(self, on_pause: Callable[[], None]) -> bool:
        """Wait until a step may be taken; False if the run is to stop.

        `on_pause` is called whenever the run comes to rest.
        """
        with self._changed:
            while not self.stopping:
                if self._paused and not self._steps:
                    self._waits = True
                    on_pause()
                    self._changed.notify_all()
                    self._changed.wait()
                    self._waits = False
                elif not self._paused and (left := self._next - time.monotonic()) > 0:
                    self._changed.wait(left)
                else:
                    self._steps = max(0, self._steps - 1)
                    self._next = time.monotonic() + self._interval
                    return True
            return False

    def _read(self) -> None:
        try:
            while line := self._commands.readline(MAX_COMMAND):
                self._obey(*line.split(maxsplit=1))
        finally:
            self._obey("stop")

    def _obey(self, command: str = "", value: str = "") -> None:
        with self._changed:
            if command in ("pause", "go"):
                self._paused, self._steps = command == "pause", 0
            elif command == "step":
                self._paused, self._steps = True, self._steps + 1
            elif command == "speed" and value.strip().isdecimal():
                self._interval = 1 / int(value) if int(value) else 0.0
                self._next = 0.0
            elif command == "watch":
                self.site = value.strip()
            self.stopping |= command == "stop"
            self._changed.notify_all()
            if command == "pause" and not self._changed.wait_for(lambda: self._waits, SOON):
                self._report(state="pausing")


class Reports:
    """JSON lines; nothing is written once the reader has gone."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._lock = stream, threading.Lock()

    def __call__(self, **entries: Any) -> None:
        with self._lock:
            try:
                print(json.dumps(entries), file=self._stream, flush=True)
            except (OSError, ValueError):  # the end of stdin will stop the run
                return


class ControlledTraining:
    """A trainer that obeys `Controls` and reports its steps."""

    def __init__(self, trainer: Trainer, commands: TextIO, reports: TextIO) -> None:
        self.trainer, self.report = trainer, Reports(reports)
        self.example = FixedExample(trainer.task, trainer.model)
        self.controls = Controls(commands, self.report)
        self._n_rows = 0  # of the curve, reported so far
        self._last = 0.0  # when the last report was made
        self._watching = 0.0  # s of processor time
        self._started = 0.0  # processor time of the thread when the run began

    def follow(self) -> bool:
        """Train to the end; return False if the run was stopped, after saving it."""
        trainer, self._started = self.trainer, time.thread_time()
        if trainer.step == 0:
            trainer.save_beginning()
        self._describe(state="running")
        steps = trainer.train()
        while self.controls.may_step(lambda: self._describe(state="paused")):
            if (record := next(steps, None)) is None:
                self._describe(state="trained")
                return True
            if (
                time.monotonic() - self._last >= STEP_REPORT_SECONDS
                or record.validation
                or record.step == 1
            ):
                self._describe(record, state="running")
        trainer.save_state()
        if not trainer.recipe.patience:
            trainer.save_checkpoint()
        self._describe(state="stopped")
        return False

    def _describe(self, record: StepRecord | None = None, *, state: str) -> None:
        """Report the step, new rows of the curve and, if time allows, the attention."""
        rows = self.trainer.curve[self._n_rows :]
        self._n_rows += len(rows)
        entries: dict[str, Any] = {"state": state, "step": self.trainer.step, "rows": rows}
        if record is not None:
            entries |= {"loss": record.loss, "rate": record.learning_rate}
            entries |= {"warnings": list(record.warnings)} if record.validation else {}
        if self.controls.site and (record is None or self._may_watch()):
            start = time.thread_time()
            entries["attention"] = self.example.weights(self.controls.site)
            self._watching += time.thread_time() - start
        self.report(**entries)
        self._last = time.monotonic()

    def _may_watch(self) -> bool:
        return self._watching <= CONTROLLED_WATCH_SHARE * (time.thread_time() - self._started)


def follow_controlled(trainer: Trainer, score: Callable[[], None]) -> int:
    """Train under the control of the process at the other end of stdin; return the exit status.

    `score` is called at the end; what it prints goes to stderr.
    """
    reports, sys.stdout = sys.stdout, sys.stderr
    controlled = ControlledTraining(trainer, sys.stdin, reports)
    try:
        if not controlled.follow():
            return 130
        score()
    except FloatingPointError as error:
        controlled.report(state="failed", message=str(error))
        return 1
    controlled.report(state="done", step=trainer.step)
    return 0
