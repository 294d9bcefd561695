"""The handouts of a lesson as downloads; each is made by a process of its own, one at a time."""

import os
import subprocess
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path

import viz_app
from models import InputError
from viz_app.session.downloads import Download

HANDOUT_SECONDS = 600.0  # s for a handout to be made
HANDOUT_BUSY = "Another handout is being made; try again in a minute."
_one = threading.Lock()


def handout_files(lesson: str) -> list[Download]:
    """Return the downloads of a lesson: its page to print, without and with answers."""
    return [
        Download(label, f"{lesson}{suffix}.html", partial(_content, lesson, has_answers), dict)
        for label, suffix, has_answers in (
            ("Handout", "", False),
            ("Handout with answers", "-answers", True),
        )
    ]


def _content(lesson: str, has_answers: bool) -> str:
    """Return a handout.

    Raises:
        InputError: another one is being made, or this one cannot be made.
    """
    if not _one.acquire(blocking=False):
        raise InputError(HANDOUT_BUSY)
    try:
        return _make(lesson, has_answers)
    finally:
        _one.release()


def _make(lesson: str, has_answers: bool) -> str:
    paths = os.pathsep.join(
        [str(Path(viz_app.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    )
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "handout.html")
        command = [sys.executable, "-m", "viz_app.command", "handout", lesson, "--out", str(out)]
        ended = subprocess.run(
            [*command, *["--answers"] * has_answers],
            cwd=folder,  # whose files hide no package
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            timeout=HANDOUT_SECONDS,
            check=False,
        )
        if ended.returncode:
            last = ended.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise InputError(last[0] if last else "the handout could not be made")
        return out.read_text("utf-8")
