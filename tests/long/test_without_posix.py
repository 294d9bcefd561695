"""Import, open and generate on a system without POSIX: no fork, no fcntl, no SIGKILL, as on Windows.

Only this project's code sees such a system; its dependencies see the real one.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from hub_models import BY_NAME

import models

ROOT = Path(models.__file__).parents[1]
SCRIPT = """
import importlib, json, os, pkgutil, signal, socket, sys
from pathlib import Path
import asyncio, filelock, multiprocessing.spawn, pandas, streamlit.web.cli, torch, uvicorn
import transformers.generation.utils, transformers.models.gpt2.modeling_gpt2

ROOT, HIDDEN = Path(sys.argv[1]), ("fcntl", "grp", "pwd", "resource", "termios")

def is_ours():
    frame = sys._getframe(2)
    while frame and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    path = Path(frame.f_code.co_filename) if frame else Path()
    return path.is_relative_to(ROOT) and "site-packages" not in path.parts

class Hidden:
    def find_spec(self, name, *_):
        if name in HIDDEN and is_ours():
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
for name in HIDDEN:
    sys.modules.pop(name, None)
ABSENT = {
    os: ("fork", "O_NONBLOCK", "O_NOFOLLOW", "O_ASYNC", "sysconf", "killpg", "getuid", "uname"),
    signal: ("SIGKILL", "SIGCHLD", "SIGIO", "SIGPROF", "setitimer", "ITIMER_PROF"),
    socket: ("recv_fds", "send_fds"),
}
for module, names in ABSENT.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)

import models, viz_app
failed = {}
for package in (models, viz_app):
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if found.name == "viz_app.app":      # runs the page
            continue
        try:
            importlib.import_module(found.name)
        except Exception as error:
            failed[found.name] = repr(error)
from viz_app import bounds
bounds.raise_file_limit()
folder = Path(sys.argv[2])
scope = models.load(folder)
print(json.dumps([failed, models.load("eng-fra", device="cpu").write("We like him.").text, scope.name]))
"""


def test_every_module_is_imported_and_models_open(tmp_path: Path) -> None:
    BY_NAME["GPT2LMHeadModel"].save(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(ROOT), str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    failed, written, name = json.loads(done.stdout.splitlines()[-1])
    # only code in the forked process that tries folders out may need them
    assert set(failed) <= {"models.hub.trial.process"}, failed
    assert written == models.load("eng-fra", device="cpu").write("We like him.").text
    assert name == tmp_path.name
