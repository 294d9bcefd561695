"""A run that the app trains: its settings, its progress and its latest picture."""

import json
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from models.architectures import Model
from models.checkpoint_files import RECORD, read_json, snapshots
from models.errors import CheckpointError
from models.training.fixed_example import example_fields
from viz_app.trainers import folders
from viz_app.trainers.process import TrainerReport, TrainingProcess, reported_weights
from viz_app.trainers.settings import RunSettings
from viz_app.trainers.tickets import Ticket

WAITING, STARTING, RUNNING, PAUSING, PAUSED = "waiting", "starting", "running", "pausing", "paused"
TRAINED, STOPPED, DONE, FAILED = "trained", "stopped", "done", "failed"
ACTIVE = (WAITING, STARTING, RUNNING, PAUSING, PAUSED, TRAINED)
MESSAGE = 300  # characters of a message
CURVE = 4000  # the newest losses, kept besides the rows of the curve


@dataclass(eq=False)
class TrainingRun:
    """A run of one session. Its reports arrive in a thread; the page may read it at any time."""

    settings: RunSettings
    owner: str  # the session
    folder: Path | None = None  # None before its start
    state: str = WAITING
    step: int = 0
    message: str = ""
    curve: list[dict[str, float]] = field(default_factory=list)  # as in the record
    losses: list[dict[str, float]] = field(
        default_factory=list
    )  # at steps between the rows of the curve
    latest: tuple[int, str, np.ndarray] | None = None  # step, site and weights of the last picture
    pictures: int = 0  # number of pictures that have arrived
    ticket: Ticket | None = None
    process: TrainingProcess | None = None
    is_paused: bool = False  # as last requested
    speed: int = 0  # steps a second; 0: no limit
    site: str = ""  # whose attention is watched
    paused_since: float = 0.0  # time of its last pause; 0 while it is not paused
    seen: float = 0.0  # when its page was last known to be open
    begun: int = 1  # always the same run, unlike those of a watched folder
    _steps: int = 0  # single steps requested before it started
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE

    @property
    def name(self) -> str:
        """Its name among the models; "" before it has begun."""
        return folders.TRAINED_PREFIX + self.folder.name if self.folder else ""

    @property
    def task(self) -> str:
        return self.settings.task

    @property
    def metric(self) -> str:
        """The held-out measure of its validations."""
        return self.settings.metric

    @property
    def steps(self) -> int:
        """The steps of the whole run."""
        return self.settings.recipe.steps

    @property
    def snapshots(self) -> list[int]:
        """The steps whose weights have been saved so far."""
        return snapshots(self.folder) if self.folder else []

    @property
    def can_be_opened(self) -> bool:
        return self.folder is not None and (self.folder / RECORD).is_file() and bool(self.snapshots)

    def example(self, model: Model) -> list[str]:
        """Return the texts of the watched example.

        Own data are read only by the trainer, so their example comes from its record.
        """
        if self.settings.own and self.folder:
            return record_of(self.folder).get("example", [])
        return example_fields(self.settings.opened, model)

    def start(self) -> None:
        """Start training, or continue from the saved state, unless stopped meanwhile."""
        with self._lock:
            if self.state != WAITING:
                return
            if self.folder is None:
                self.folder = folders.create(f"{self.settings.task}-{self.settings.model}")
            self.settings.prepare(self.folder)
            arguments = self.settings.arguments(self.folder)
            has_state = (self.folder / "state.pt").is_file()
            arguments += ["--resume"] if has_state else ["--overwrite"]
            self.state = STARTING
            self.process = TrainingProcess(arguments, self._take)
            self._send(
                f"watch {self.site}", f"speed {self.speed}", "pause" if self.is_paused else "go"
            )
            self._send(*["step"] * self._steps)
            self._steps = 0

    def pause(self) -> None:
        self.is_paused = True
        self._send("pause")

    def go_on(self) -> None:
        """Continue training; a run that has stopped needs a place in the queue first."""
        self.is_paused, self._steps = False, 0
        self._send("go")

    def one_step(self) -> None:
        with self._lock:
            self.is_paused = True
            if self.process is None:
                self._steps = min(self._steps + 1, 10)
            self._send("step")

    def set_speed(self, steps: int) -> None:
        self.speed = steps
        self._send(f"speed {steps}")

    def watch(self, site: str) -> None:
        """Report the attention of this site from now on."""
        if site != self.site:
            self.site = site
            self._send(f"watch {site}")

    def stop(self) -> None:
        """Save and end; the run can be continued later."""
        with self._lock:
            if self.process is not None:
                self.process.stop()
            elif self.state == WAITING:
                self._end(STOPPED)

    def fail(self, message: str) -> None:
        """End the run before anything has been trained."""
        with self._lock:
            self.message = message
            self._end(FAILED)

    def points(self) -> list[dict[str, float]]:
        """Return the rows of the curve, and the losses reported between them.

        A run that was killed continues at an earlier step and reports its curve again.
        """
        with self._lock:
            rows = {row["step"]: row for row in (*self.losses, *self.curve)}
            return [rows[step] for step in sorted(rows) if step <= self.step]

    def _send(self, *commands: str) -> None:
        if process := self.process:
            for command in commands:
                process.send(command)

    def _take(self, report: TrainerReport) -> None:
        with self._lock:
            state = report.get("state")
            self.step = int(report.get("step", self.step))
            self.curve += report.get("rows", ())
            if "loss" in report:
                self.losses = [*self.losses, {"step": self.step, "loss": report["loss"]}][-CURVE:]
            if picture := reported_weights(report.get("attention")):
                self.latest = self.step, *picture
                self.pictures += 1
            if state == "ended":
                self._end(self.state if self.state in (DONE, FAILED) else STOPPED)
            elif state == FAILED:
                self.message = str(report.get("message", ""))[:MESSAGE]
                self._end(FAILED)
            elif state in (RUNNING, PAUSING, PAUSED, TRAINED, DONE):
                self.paused_since = time.monotonic() if state == PAUSED else 0.0
                self.state = state

    def _end(self, state: str) -> None:
        self.state, self.process = state, None
        if self.ticket is not None:
            self.ticket.give_up()
            self.ticket = None


def record_of(folder: Path) -> dict[str, Any]:
    """Return the record of a run that another process may be writing; {} while there is none."""
    try:
        return read_json(folder / RECORD)
    except (CheckpointError, json.JSONDecodeError):
        return {}
