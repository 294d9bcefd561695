"""Try out a Hugging Face folder in a process of its own before this one reads it: what its files can do to whoever reads them,
they do there, under limits of memory and time.

Importing transformers takes seconds. So one process imports it, waits, and forks for each trial (`models.hub.trial`); it ends
with this process, or when it has had nothing to do for a while.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from models import loading
from models.errors import CheckpointError

LONGEST = 300.0  # s that a trial may take, however busy the machine is
_POLL = 0.1  # s between two looks at whether anybody still waits
_CAN_FORK = hasattr(os, "fork")  # nothing is tried out on Windows
_ROOT = Path(__file__).parents[2]
_CODE = "from models.hub.trial import serve; serve({})"
_ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false",
}  # fmt: skip


class _Nursery:
    """The process that forks for each trial."""

    def __init__(self) -> None:
        self.control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CODE.format(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=_ROOT,
                env=os.environ | _ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(sys.path)},
                start_new_session=True,  # Ctrl-C in a terminal is for this process alone
            )

    def end(self) -> None:
        """Kill it, and all trials that it forked."""
        self.control.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


_nursery: _Nursery | None = None
_lock = threading.Lock()


def prepare() -> None:
    """Start the process for trials, so that it is ready when one is due."""
    global _nursery
    if not _CAN_FORK:
        return
    with _lock:
        if _nursery is None:
            _nursery = _Nursery()


def _end() -> None:
    """End the process for trials; another starts when one is due."""
    global _nursery
    with _lock:
        if _nursery is not None:
            _nursery.end()
            _nursery = None


def passed(folder: Path, dtype: str) -> int:
    """Return the bytes that the model of a folder takes, once it has been tried out.

    Raises CheckpointError with what is wrong with the folder, loading.Cancelled where nobody waits any more."""
    if not _CAN_FORK:
        return 0
    ours, theirs = socket.socketpair()
    lifeline, ours_of_it = os.pipe()  # closing our end kills the trial
    try:
        with ours:
            with theirs:
                _send([theirs.fileno(), lifeline])
            request = {"folder": str(folder), "dtype": dtype}
            ours.sendall(json.dumps(request).encode() + b"\n")
            with loading.out_of_turn():
                return _verdict(ours)
    finally:
        os.close(lifeline)
        os.close(ours_of_it)


def _send(descriptors: list[int]) -> None:
    for _ in range(2):  # the process may have ended, having had nothing to do
        prepare()
        with _lock, contextlib.suppress(OSError, AttributeError):
            socket.send_fds(_nursery.control, [b"t"], descriptors)
            return
        _end()
    raise CheckpointError("the process in which it would be tried out does not start")


def _verdict(channel: socket.socket) -> int:
    """Wait for the last message of a trial."""
    stage, end, content = "folder", time.monotonic() + LONGEST, b""
    while time.monotonic() < end:
        loading.report_progress(loading.TRIED, 0, 1)
        if not select.select([channel], [], [], _POLL)[0]:
            continue
        if not (part := _received(channel)):
            raise CheckpointError(
                f"its {stage} cannot be used: trying it out crashed or took too much memory or time"
            )
        *lines, content = (content + part).split(b"\n")
        for message in map(json.loads, lines):
            stage = message.get("stage", stage)
            if "raised" in message:
                first = message["raised"].splitlines()[0]
                raise CheckpointError(f"its {stage} cannot be used: {first[:300]}")
            if "error" in message:
                raise CheckpointError(message["error"])
            if "bytes" in message:
                loading.report_progress(loading.TRIED, 1, 1)
                return message["bytes"]
    raise CheckpointError(f"its {stage} cannot be used: trying it out took over {LONGEST:.0f} s")


def _received(channel: socket.socket) -> bytes:
    try:
        return channel.recv(2**16)
    except OSError:
        return b""
