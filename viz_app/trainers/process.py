"""A trainer: `attnscope train` in a process of its own, commanded over its stdin."""

import base64
import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import models
from models.training.fixed_example import MAX_WATCHED_WEIGHTS

NICENESS = 10  # edits come first
# a file in the working folder hides no package
CODE = """import sys
sys.path[:] = [path for path in sys.path if path]
from models.priority import lower_priority
lower_priority(int(sys.argv.pop(1)))
from models.cli import main
sys.exit(main())"""
MAX_REPORT = 10 * MAX_WATCHED_WEIGHTS  # characters of a report
GRACE = 20.0  # s that a trainer has to end by itself

TrainerReport = dict[str, Any]


class TrainingProcess:
    """A trainer that is running.

    `take` receives each report, in a thread; the last one says how the trainer ended. The trainer
    ends when this process does, however that ends, because its stdin is then closed.
    """

    def __init__(self, arguments: Sequence[str], take: Callable[[TrainerReport], None]) -> None:
        self._take = take
        self._stderr_lines: deque[str] = deque(maxlen=20)  # the last lines on stderr
        self._lock = threading.Lock()
        package = str(Path(models.__file__).parents[1])
        paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, "-c", CODE, str(NICENESS), *arguments, "--controlled"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C is for the server, and the trainer ends with it
            creationflags=getattr(subprocess, "BELOW_NORMAL_PRIORITY_CLASS", 0),  # on Windows
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        threading.Thread(target=self._read_errors, daemon=True).start()
        self._listener.start()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send(self, command: str) -> None:
        """Send a command (models/training/controlled.py); do nothing if it has ended."""
        with self._lock:
            try:
                print(command, file=self._process.stdin, flush=True)
            except (OSError, ValueError):
                return

    def stop(self) -> None:
        """Ask the trainer to save and end; kill it if it does not."""
        self.send("stop")
        threading.Thread(target=self._end, daemon=True).start()

    def wait(self, seconds: float) -> None:
        """Wait until the trainer has ended and its last report has been taken."""
        self._listener.join(seconds)

    def _end(self) -> None:
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _listen(self) -> None:
        while line := self._process.stdout.readline(MAX_REPORT):  # type: ignore[union-attr]
            try:
                report = json.loads(line)
            except ValueError:
                continue
            if isinstance(report, dict):
                self._take(report)
        status = self._process.wait()
        if status not in (0, 130, -9, -15):
            errors = [line for line in self._stderr_lines if line.startswith("attnscope: ")]
            message = (
                errors[-1].removeprefix("attnscope: ")
                if errors
                else f"the trainer ended with status {status}"
            )
            self._take({"state": "failed", "message": message})
        else:
            self._take({"state": "ended"})

    def _read_errors(self) -> None:
        while line := self._process.stderr.readline(MAX_REPORT):  # type: ignore[union-attr]
            self._stderr_lines.append(line.rstrip())


def reported_weights(attention: Any) -> tuple[str, np.ndarray] | None:
    """Return the site and the weights (head, query, key) of a report; None if it has none."""
    try:
        shape = tuple(int(n) for n in attention["shape"])
        raw = base64.b64decode(attention["float32"], validate=True)
        return str(attention["site"]), np.frombuffer(raw, "<f4").reshape(shape)
    except (KeyError, TypeError, ValueError):
        return None
