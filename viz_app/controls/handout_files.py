"""The handouts of a lesson as downloads; each is made by a process of its own, one at a time."""

import logging
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout

import viz_app
from models import InputError
from viz_app import checkpoints
from viz_app.common_folder import common_folder
from viz_app.session.downloads import Download

HANDOUT_SECONDS = 600.0  # s for a handout to be made
HANDOUT_BUSY = "Another handout is being made; try again in a minute."
# without the folder that it runs in, whose files would hide packages (-P, from Python 3.11 on)
_CODE = "import sys; sys.path = list(filter(None, sys.path)); from viz_app.command import main; sys.exit(main())"
HANDOUT_TOOK_TOO_LONG = "The handout took too long to make; try again later."
_log = logging.getLogger(__name__)


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
    try:
        with FileLock(common_folder() / "handout.lock", timeout=0):  # of all server processes
            return _make(lesson, has_answers)
    except Timeout:
        raise InputError(HANDOUT_BUSY, "") from None


def _make(lesson: str, has_answers: bool) -> str:
    package = str(Path(viz_app.__file__).parents[1])
    paths = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "handout.html")
        command = [sys.executable, "-c", _CODE, "handout", lesson, "--out", str(out)]
        try:
            ended = subprocess.run(
                [*command, *["--answers"] * has_answers],
                env={**os.environ, "PYTHONPATH": paths},
                capture_output=True,
                timeout=HANDOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise InputError(HANDOUT_TOOK_TOO_LONG, "") from None
        if ended.returncode:
            errors = ended.stderr.decode(errors="replace").strip()
            _log.error("the handout of %s could not be made: %s", lesson, errors)
            # in a shared app, they are not for a visitor: they may name folders of this machine
            last = [] if checkpoints.is_shared() else errors.splitlines()[-1:]
            raise InputError(last[0] if last else "The handout could not be made.", "")
        return out.read_text("utf-8")
