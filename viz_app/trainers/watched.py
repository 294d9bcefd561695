"""A run that another process trains, read from the files of its folder and never controlled."""

import math
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from models.architectures import Model
from models.checkpoint import Description, describe_checkpoint
from models.checkpoint_files import CONFIG, RECORD, TOKENIZER, WEIGHTS, snapshot_path, snapshots
from models.errors import CheckpointError
from models.printable import printable
from models.tasks.repeat import INDUCTION
from models.training import progress
from models.training.live_report import REPORT, read_report, request_attention
from models.training.run_folder import LOCK_FILE, STATE, is_claimed
from viz_app.trainers.process import reported_weights
from viz_app.trainers.run import ACTIVE, CURVE, DONE, RUNNING, STARTING, STOPPED, TRAINED, WAITING

WATCHED_PREFIX = "watched/"  # of its name in the model menu
FOLDER_LOOK_SECONDS = 0.5  # s between two looks at the folder
ASK = 1.0  # s between two requests for a report
MAX_EXAMPLE_FIELDS, MAX_EXAMPLE_TEXT = 8, 10_000  # texts of an example, and their characters
# entries of the record that tell two runs apart
IDENTITY = (
    "task", "command", "recipe", "data", "start", "example", "device", "processes", "torch",
)  # fmt: skip
MAX_MEASURE_NAME = 40  # characters of a measure's name
MAX_CURVE_ROWS = 5000  # rows of the curve that are shown, of losses alone and of measurements
WATCHED_FILES = ("", CONFIG, TOKENIZER, RECORD, WEIGHTS, REPORT, LOCK_FILE, "snapshots")
# entries of a row that are not a measure of the task
NOT_MEASURES = ("step", "loss", progress.VALIDATION_LOSS, progress.FLATNESS, INDUCTION)


@dataclass(eq=False)
class WatchedRun:
    """A run in a folder; `look` reads what is new there, at most once in FOLDER_LOOK_SECONDS."""

    folder: Path
    state: str = (
        WAITING  # WAITING: there is no run; STOPPED: its process ended before the last step
    )
    step: int = 0
    problem: str = ""  # with the folder, at the last look
    latest: tuple[int, str, np.ndarray] | None = None  # step, site and weights of the last picture
    described: Description | None = None  # as last read
    losses: list[dict[str, float]] = field(default_factory=list)  # rows of the reports
    begun: int = 0  # number of runs seen in the folder
    _read: object = None  # version of the file that the description was read from
    _site: str = ""
    _next_look: float = 0.0  # when the next look is due
    _next_request: float = 0.0  # when the next report is requested
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def record(self) -> dict[str, Any]:
        return self.described.training if self.described else {}

    @property
    def name(self) -> str:
        """Its name among the models."""
        return WATCHED_PREFIX + self.folder.name

    @property
    def task(self) -> str:
        return self.record.get("task", "")

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE

    @property
    def steps(self) -> int:
        """The steps of the whole run, or those taken if its recipe is not known."""
        return _count(self.record.get("recipe", {}).get("steps")) or max(self.step, 1)

    @property
    def metric(self) -> str:
        """The held-out measure of its validations; "" before the first, or without one."""
        rows = progress.validations(self.record.get("curve", []))
        names = [name for name in (rows[-1] if rows else ()) if name not in NOT_MEASURES]
        return printable(names[0][:MAX_MEASURE_NAME]) if names else ""

    @property
    def is_scored(self) -> bool:
        return bool(self.record.get("scores"))

    @property
    def command(self) -> str:
        """The command that started it."""
        return self.record.get("command", "")

    @property
    def can_be_resumed(self) -> bool:
        """True once it has saved its state, which `--resume` needs."""
        return (self.folder / STATE).is_file()

    @property
    def snapshots(self) -> list[int]:
        """The steps whose weights are saved: those of its snapshots and of the last checkpoint."""
        if self.described is None:
            return []
        steps = [step for step in snapshots(self.folder) if not _is_link(self.folder, step)]
        return sorted({*steps, _count(self.record.get("step"))})

    @property
    def can_be_opened(self) -> bool:
        return self.described is not None and not self.problem

    def points(self) -> list[dict[str, float]]:
        """Return the rows of the curve, and the losses reported since."""
        with self._lock:
            curve = self.record.get("curve", [])
            losses, measured = (
                [row for row in curve if is_measured == bool(row.keys() - {"step", "loss"})]
                for is_measured in (False, True)
            )
            shown = [*self.losses, *_thinned(losses), *_thinned(measured)]
            rows = {row["step"]: row for row in shown}
            return [rows[step] for step in sorted(rows)]

    def example(self, model: Model) -> list[str]:
        """Return the texts of the watched example; of an old record, its first held-out text.

        Raises:
            CheckpointError: The record has none, or one that is too long.
        """
        texts = self.record.get("example") or next(iter(self.record.get("held_out", [])), [])
        if not texts or len(texts) > MAX_EXAMPLE_FIELDS or sum(map(len, texts)) > MAX_EXAMPLE_TEXT:
            raise CheckpointError(f"{RECORD} has no example that can be shown")
        return texts

    def watch(self, site: str) -> None:
        """Ask for the attention of this site from now on."""
        self._site = site

    def look(self) -> None:
        """Read what is new, if the last look was long enough ago."""
        with self._lock:
            if time.monotonic() < self._next_look:
                return
            self._next_look = time.monotonic() + FOLDER_LOOK_SECONDS
            try:
                self._check_links()
                self._look()
                self.problem = ""
            except CheckpointError as error:
                self.problem = without_folder(str(error), self.folder)

    def _check_links(self) -> None:
        """Refuse a folder with links to files elsewhere."""
        for name in WATCHED_FILES:
            if (self.folder / name).is_symlink():
                raise CheckpointError(
                    f"{name or self.folder.name} is a link, which is not followed"
                )

    def _look(self) -> None:
        is_claimed_now = is_claimed(self.folder)
        if not os.path.lexists(self.folder / RECORD):
            self.state = STARTING if is_claimed_now else WAITING
            self.described, self._read, self.step = None, None, 0
            self._forget()
            return
        self._read_record()
        if is_claimed_now:
            report = read_report(self.folder)
            if report and self._is_newer(REPORT, RECORD):
                self._take(report)
            self._ask()
        else:
            self._forget()
        self.state = self._state(is_claimed_now)

    def _forget(self) -> None:
        """Drop what only a running process reports."""
        self.latest, self.losses = None, []

    def _read_record(self) -> None:
        status = (self.folder / RECORD).lstat()
        version = status.st_mtime_ns, status.st_size, status.st_ino
        if version == self._read:
            return
        before, record = self.record, (described := describe_checkpoint(self.folder)).training
        step = _count(record.get("trained_to", record.get("step")))
        if step < self.step or any(before.get(name) != record.get(name) for name in IDENTITY):
            self.begun += 1
            self._forget()
        self.described, self._read, self.step = described, version, step

    def _is_newer(self, name: str, other: str) -> bool:
        try:
            times = [(self.folder / each).lstat().st_mtime_ns for each in (name, other)]
        except OSError:  # removed meanwhile
            return False
        return times[0] >= times[1]

    def _take(self, report: dict[str, Any]) -> None:
        """Take the latest report; a resumed run may be at an earlier step than the record."""
        self.step = step = int(report["step"])
        new = [*report.get("rows", ()), {"step": step, "loss": report["loss"]}]
        rows = {row["step"]: row for row in [*self.losses, *new] if row["step"] <= step}
        self.losses = [rows[one] for one in sorted(rows)][-CURVE:]
        if picture := reported_weights(report.get("attention")):
            site, weights = picture
            if weights.ndim == 3 and bool(np.isfinite(weights).all()):
                self.latest = step, site, weights

    def _ask(self) -> None:
        if time.monotonic() >= self._next_request:
            self._next_request = time.monotonic() + ASK
            request_attention(self.folder, self._site)

    def _state(self, is_claimed_now: bool) -> str:
        recipe, curve = self.record.get("recipe", {}), self.record.get("curve", [])
        patience = _count(recipe.get("patience"))
        is_trained = self.step >= self.steps or 0 < patience <= progress.since_best(curve)
        if is_claimed_now:
            return TRAINED if is_trained else RUNNING
        return DONE if is_trained else STOPPED


def _thinned(rows: list[dict[str, float]]) -> list[dict[str, float]]:
    """Return rows evenly spaced among these, at most MAX_CURVE_ROWS, and the last."""
    stride = -(-len(rows) // MAX_CURVE_ROWS) or 1
    return [*rows[:-1:stride], *rows[-1:]]


def without_folder(message: str, folder: Path) -> str:
    """Return a message about the files of a folder without the path of the folder."""
    return message.replace(f"{folder}{os.sep}", "").replace(str(folder), folder.name)


def _is_link(folder: Path, step: int) -> bool:
    return snapshot_path(folder, step).is_symlink()


def _count(value: Any) -> int:
    """Return a count from a record; 0 for a value that is not one."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and math.isfinite(value) and value >= 0 else 0
