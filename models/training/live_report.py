"""Reports of a run to an app, made while the app asks for them.

The app names the attention that it looks at in a request file, again and again; the run answers
with a report file. Neither waits for the other, and nothing is written unless the app asks.
"""

import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from models.checkpoint_files import read_bytes, read_json, write_bytes
from models.errors import CheckpointError
from models.training.fixed_example import FixedExample
from models.training.recipe import StepRecord
from models.training.trainer import Trainer
from models.training_record import check_record

REQUEST, REPORT = ".watch", ".report.json"
REPORT_SECONDS = 0.5  # s between two reports
FRESH = 10.0  # s for which a request is valid
REPORT_SHARE = 0.07  # of the time, at most, for reports
REPORTED_ROWS = 500  # rows of the curve in a report, the newest; the record has those before
MAX_REQUEST_BYTES = 200  # bytes of a request
MAX_REPORT_BYTES = 2**20  # bytes of a report


@contextmanager
def reporting(trainer: Trainer) -> Iterator[Callable[[StepRecord], None]]:
    """Yield a function that reports a step of the run to whoever asks, and clean up at the end."""
    reports = _Reports(trainer)
    reports.remove()
    try:
        yield reports.report
    finally:
        reports.remove()


class _Reports:
    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._example: FixedExample | None = None  # made at the first request
        self._begun, self._last, self._spent = time.perf_counter(), 0.0, 0.0

    def report(self, record: StepRecord) -> None:
        """Report a step if the app asks and time allows; a full disk does not stop the run."""
        now = time.perf_counter()
        if now - self._last < REPORT_SECONDS or self._spent > REPORT_SHARE * (now - self._begun):
            return
        self._last = now
        if (site := requested_site(self._trainer.folder)) is not None:
            content = json.dumps(self._describe(record, site)).encode()
            with suppress(OSError):
                write_bytes(self._trainer.folder / REPORT, content)
        self._spent += time.perf_counter() - now

    def remove(self) -> None:
        for name in (REQUEST, REPORT):
            with suppress(OSError):
                (self._trainer.folder / name).unlink(missing_ok=True)

    def _describe(self, record: StepRecord, site: str) -> dict[str, Any]:
        entries = {
            "step": record.step,
            "loss": record.loss,
            "rows": self._trainer.curve[-REPORTED_ROWS:],
        }
        if not site:
            return entries
        if self._example is None:
            self._example = FixedExample(self._trainer.task, self._trainer.model)
        return entries | {"attention": self._example.weights(site)}


def request_attention(folder: Path, site: str) -> None:
    """Ask the run in a folder for reports with the attention of a site; "" for none.

    Only a plain file of this name is written, never one that a link leads to. In a folder that
    cannot be written to, nothing is requested.
    """
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with suppress(OSError):
        file = os.open(folder / REQUEST, flags, 0o644)
        try:
            status = os.fstat(file)
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                os.ftruncate(file, 0)
                os.write(file, site.encode()[:MAX_REQUEST_BYTES])
                os.utime(folder / REQUEST, follow_symlinks=False)
        finally:
            os.close(file)


def requested_site(folder: Path) -> str | None:
    """Return the site of a fresh request; None if nobody is looking."""
    try:
        if abs(time.time() - (folder / REQUEST).lstat().st_mtime) > FRESH:
            return None
        return read_bytes(folder / REQUEST, MAX_REQUEST_BYTES).decode("utf-8", "replace").strip()
    except (OSError, CheckpointError):
        return None


def read_report(folder: Path) -> dict[str, Any]:
    """Read the last report: "step", "loss", "rows" and "attention"; {} if there is none.

    Raises:
        CheckpointError: The file is not such a report.
    """
    path = folder / REPORT
    if not os.path.lexists(path):
        return {}
    report = read_json(path, largest=MAX_REPORT_BYTES)
    row = {"step": report.get("step"), "loss": report.get("loss")}
    try:
        check_record({"curve": [row, *report.get("rows", ())]})
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: not a report of a run ({error})") from None
    return report
