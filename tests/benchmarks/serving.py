"""A Streamlit script served for a measurement: in a process of its own, on a free port, with the app's settings."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import viz_app

APP = Path(viz_app.__file__).with_name("server.py")
SCRIPTS = Path(__file__).with_name("scripts")


@contextmanager
def served(script: Path) -> Iterator[str]:
    """The script's address without "http://", once its server answers; the server ends with the block."""
    with tempfile.TemporaryDirectory() as folder:
        if script != APP:  # Streamlit reads the settings that lie next to the script
            settings = Path(folder, ".streamlit")
            settings.mkdir()
            shutil.copy(APP.parent / ".streamlit" / "config.toml", settings)
            script = Path(shutil.copy(script, folder))
        address = f"localhost:{_free_port()}"
        port = address.partition(":")[2]
        command = [
            sys.executable,
            "-m",
            "streamlit",
            "run",
            str(script),
            f"--server.port={port}",
            "--server.headless=true",
        ]
        paths = os.pathsep.join([str(APP.parents[1]), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": paths, "ATTNSCOPE_DEVICE": "cpu"}
        server = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            _wait_for(address, server)
            yield address
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


def _wait_for(address: str, server: subprocess.Popen, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        try:
            urllib.request.urlopen(f"http://{address}/_stcore/health", timeout=5).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"no answer from {address}: {' '.join(server.args)}")
