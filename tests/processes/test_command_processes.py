"""The real command in a separate process: stopped by Ctrl-C, and at its first start on a machine."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import torch
from hub_models import BY_NAME

import viz_app

# The command, with Ctrl-C pressed when it begins to import the module in its first argument.
PRESSED = """
import os, signal, sys
moment = sys.argv.pop(1)
class Pressed:
    def find_spec(self, name, *_):
        if name == moment:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Pressed())
from viz_app.command import main
sys.exit(main())
"""
RUN = (
    "--d-model 21 --n-heads 3 --d-ff 23 --n-encoder-layers 1 --n-decoder-layers 1 --batch-size 5 --device cpu "
    "--validate-every 3 --score-cases 2 --save-every 2"
).split()


@pytest.mark.slow
def test_the_real_command_with_a_real_ctrl_c(tmp_path):
    command = [
        sys.executable,
        "-m",
        "models.cli",
        "train",
        "dates",
        "--out",
        str(tmp_path),
        "--steps",
        "100000",
        *RUN,
    ]
    environment = os.environ | {"PYTHONPATH": ":".join(sys.path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:  # fmt: skip
        for line in process.stdout:
            if line.startswith("step 3:"):
                process.send_signal(signal.SIGINT)
                break
        rest = process.stdout.read()
    assert process.returncode == 130
    assert "--resume continues" in rest
    stopped = int(rest.split("stopped at step ")[1].split(";")[0])
    assert torch.load(tmp_path / "state.pt", weights_only=True)["step"] == stopped >= 3


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["torch", "transformers.models.gpt2.modeling_gpt2"])
def test_ctrl_c_while_it_imports_or_loads_is_one_line(tmp_path, moment):
    BY_NAME["GPT2LMHeadModel"].save(tmp_path)
    command = [sys.executable, "-c", PRESSED, moment, "inspect", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "attnscope: stopped\n")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="stands in for xdg-open")
def test_the_first_start_on_a_machine_asks_nothing_and_opens_a_browser(tmp_path):
    opener, opened = tmp_path / "xdg-open", tmp_path / "opened"
    opener.write_text(f'#!/bin/sh\necho "$1" > {opened}.part && mv {opened}.part {opened}\n')
    opener.chmod(0o755)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    packages = str(Path(viz_app.__path__[0]).parent)
    fresh = {
        **os.environ,
        "HOME": str(tmp_path),
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": packages,
    }
    command = [sys.executable, "-m", "viz_app.command", "--port", str(port)]
    app = subprocess.Popen(
        command, cwd=tmp_path, env=fresh, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        while not opened.exists():
            assert app.poll() is None
            time.sleep(0.1)
        assert opened.read_text().strip() == f"http://localhost:{port}"
        with urllib.request.urlopen(f"http://localhost:{port}", timeout=240) as page:
            assert page.status == 200
    finally:
        app.terminate()
        app.wait(20)
