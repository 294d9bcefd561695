"""A Streamlit script served for a measurement: in a separate process, on a free port, with the app's settings."""

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
from dataclasses import dataclass
from pathlib import Path

import viz_app

APP = Path(viz_app.__file__).with_name("server.py")
SCRIPTS = Path(__file__).with_name("scripts")
TAIL = 8000  # characters of a server's log that are shown when something fails


@dataclass(frozen=True)
class Server:
    """A running server; its address has no "http://"."""

    address: str
    process: subprocess.Popen
    log: Path

    def cpu_seconds(self) -> float:
        """Processor time the server and its workers have used so far (Linux only)."""
        stats = (Path(f"/proc/{pid}/stat").read_text() for pid in self._processes())
        times = [stat.rpartition(")")[2].split() for stat in stats]
        return sum(int(time[11]) + int(time[12]) for time in times) / os.sysconf("SC_CLK_TCK")

    def resident_mb(self) -> float:
        """Resident memory of the server and its workers (Linux only)."""
        sizes = (Path(f"/proc/{pid}/statm").read_text().split() for pid in self._processes())
        return sum(int(size[1]) for size in sizes) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def _processes(self) -> list[int]:
        pid = self.process.pid
        workers = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, workers)]


@contextmanager
def serving(script: Path, workers: int = 1) -> Iterator[Server]:
    """Serve the script until the block ends, the app with several workers. If the block fails, print the end of the log to stderr."""
    with tempfile.TemporaryDirectory() as folder:
        if script != APP:  # Streamlit reads the settings next to the script
            settings = Path(folder, ".streamlit")
            settings.mkdir()
            shutil.copy(APP.parent / ".streamlit" / "config.toml", settings)
            script = Path(shutil.copy(script, folder))
        server = _start(script, Path(folder, "server.log"), workers)
        try:
            _wait_for(server)
            yield server
        except BaseException:
            tail = server.log.read_text(errors="replace")[-TAIL:]
            print(f"\nThe server's log ({script.name}):\n{tail}", file=sys.stderr)
            raise
        finally:
            server.process.terminate()
            try:
                server.process.wait(10)
            except subprocess.TimeoutExpired:
                server.process.kill()


@contextmanager
def served(script: Path) -> Iterator[str]:
    """Serve the script until the block ends, and give only its address."""
    with serving(script) as server:
        yield server.address


def _start(script: Path, log: Path, workers: int) -> Server:
    address = f"localhost:{_free_port()}"
    port = address.partition(":")[2]
    if workers == 1:
        command = [
            *(sys.executable, "-m", "streamlit", "run", str(script)),
            *(f"--server.port={port}", "--server.headless=true"),
        ]
    else:
        command = [
            *(sys.executable, "-m", "viz_app.command", "--no-browser"),
            *(f"--port={port}", f"--workers={workers}"),
        ]
    paths = os.pathsep.join([str(APP.parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "ATTNSCOPE_DEVICE": "cpu"}
    with log.open("wb") as file:
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
    return Server(address, process, log)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


def _wait_for(server: Server, seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.process.poll() is None:
        try:
            urllib.request.urlopen(f"http://{server.address}/_stcore/health", timeout=5).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"no answer from {server.address}: {' '.join(server.process.args)}")
