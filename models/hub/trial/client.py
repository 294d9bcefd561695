"""Try out a Hugging Face folder in a child process before this one reads it.

Harmful files then harm only that process, which has limits of memory and time.

Importing transformers takes seconds. So one process imports it, waits, and forks for each trial
(`models.hub.trial.process`); it ends with this process, or when it has had nothing to do for a
while. Results are kept by the content of the files, so a folder that is opened again is not tried
out again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

from models import loading
from models.errors import CheckpointError, first_line
from models.hub import files

TRIAL_SECONDS = 300.0  # s that a trial may take, however busy the machine is
MAX_MESSAGE_BYTES = 2**20  # of a line from a trial
_FOLDER = "{folder}"  # placeholder in a kept message: each copy has its own path
_POLL = 0.1  # s between two checks that the result is still wanted
_CAN_FORK = hasattr(os, "fork")  # there are no trials on Windows
_ROOT = Path(__file__).parents[3]
_CODE = "from models.hub.trial.process import serve_trials; serve_trials({})"
_ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false",
}  # fmt: skip


class _ForkServer:
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


MAX_REMEMBERED = 256  # folders


class _Verdicts:
    """Results of trials by the content of the folder: bytes of the model, or an error message.

    A trial that crashed or ran out of memory or time is not among them: on a less busy machine it
    may pass.
    """

    def __init__(self) -> None:
        self._lock, self._known = threading.Lock(), OrderedDict[str, int | str]()

    def get(self, content: str) -> int | str | None:
        """Return the result for this content; None if it was not tried out, or long ago."""
        with self._lock:
            if content in self._known:
                self._known.move_to_end(content)
            return self._known.get(content)

    def add(self, content: str, result: int | str) -> None:
        with self._lock:
            self._known[content] = result
            while len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._known.clear()


def _content_of(folder: Path, dtype: str) -> str:
    """Return a digest of all that a trial reads: the small files and the size of the weights."""
    digest = hashlib.sha256(f"{dtype} {files.stored_numbers(folder)}".encode())
    for path in sorted(folder.iterdir()):
        if not path.is_symlink():  # the weights are links
            digest.update(f"\n{path.name} {path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


verdicts = _Verdicts()
_fork_server: _ForkServer | None = None
_lock = threading.Lock()


def start_ahead() -> None:
    """Start the process for trials, so that it is ready when one is due."""
    global _fork_server
    if not _CAN_FORK:
        return
    with _lock:
        if _fork_server is None:
            _fork_server = _ForkServer()


def _end() -> None:
    """End the process for trials; another starts when one is due."""
    global _fork_server
    with _lock:
        if _fork_server is not None:
            _fork_server.end()
            _fork_server = None


def pass_trial(folder: Path, dtype: str) -> int:
    """Return the bytes that the model of a staged folder takes, once it has been tried out.

    Raises:
        CheckpointError: something is wrong with the folder.
        loading.Cancelled: the result is no longer wanted.
    """
    if not _CAN_FORK:
        return 0
    content = _content_of(folder, dtype)
    if (result := verdicts.get(content)) is None:
        result = _try(folder, dtype)
        result = result.replace(str(folder), _FOLDER) if isinstance(result, str) else result
        verdicts.add(content, result)
    loading.report_progress(loading.TRIED, 1, 1)
    if isinstance(result, str):
        raise CheckpointError(result.replace(_FOLDER, str(folder)))
    return result


def _try(folder: Path, dtype: str) -> int | str:
    """Try out a folder; return the bytes of its model, or a message that says what is wrong.

    Raises what `pass_trial` raises.
    """
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
    for _ in range(2):  # the process may have ended after a while without trials
        start_ahead()
        with _lock, contextlib.suppress(OSError):
            if _fork_server is not None:
                socket.send_fds(_fork_server.control, [b"t"], descriptors)
                return
        _end()
    raise CheckpointError("the process that would try it out does not start")


def _verdict(channel: socket.socket) -> int | str:
    """Wait for a trial; return the bytes of the model, or an error message.

    Anything that is not a message counts as a crash: a harmful file may control the process.
    """
    stage, end, content = "folder", time.monotonic() + TRIAL_SECONDS, b""
    while time.monotonic() < end:
        loading.report_progress(loading.TRIED, 0, 1)
        if not select.select([channel], [], [], _POLL)[0]:
            continue
        if not (part := _receive(channel)):
            raise _crash(stage)
        *lines, content = (content + part).split(b"\n")
        for message in map(_message, lines):
            match message:
                case {"stage": str(stage)}:
                    pass
                case {"raised": str(text)}:
                    raise CheckpointError(f"its {stage} cannot be used: {first_line(text, 300)}")
                case {"error": str(result)} | {"bytes": int(result)}:
                    return result
                case _:
                    raise _crash(stage)
        if len(content) > MAX_MESSAGE_BYTES:
            raise _crash(stage)
    raise CheckpointError(
        f"its {stage} cannot be used: trying it out took over {TRIAL_SECONDS:.0f} s"
    )


def _crash(stage: str) -> CheckpointError:
    return CheckpointError(
        f"its {stage} cannot be used: trying it out crashed or took too much memory or time"
    )


def _message(line: bytes) -> Any:
    """Return the content of a line of JSON; None if it is not JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _receive(channel: socket.socket) -> bytes:
    try:
        return channel.recv(2**16)
    except OSError:
        return b""
