"""`attnscope watch` in a browser: a real run of the command line, drawn while it trains and distinguished from one that was killed."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from served_app import PATIENCE, free_port, watched_page

import viz_app

MAPS = ".st-key-train-maps .maps"
STATUS = ".st-key-train-status"
RUN = "--d-model=16 --n-heads=2 --threads=1 --device=cpu --steps=100000 --validate-every=200 --score-cases=5".split()


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen]:
    """Start a command of attnscope, and kill it at the end."""
    root = str(Path(viz_app.__file__).parents[1])
    one = subprocess.Popen(
        [sys.executable, "-m", "viz_app.command", *arguments],
        env={**os.environ, "PYTHONPATH": root}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield one
    finally:
        one.kill()
        one.wait()


@pytest.fixture
def training(tmp_path: Path) -> Iterator[subprocess.Popen]:
    """A run that waits until someone watches it."""
    with process("train", "copy", f"--out={tmp_path / 'mine'}", *RUN) as run:
        while not (tmp_path / "mine" / "training.json").exists():
            assert run.poll() is None
            time.sleep(0.1)
        run.send_signal(signal.SIGSTOP)
        yield run


@pytest.fixture
def page(context: BrowserContext, training: subprocess.Popen, tmp_path: Path) -> Iterator[Page]:
    port = free_port()
    with process("--no-browser", f"--port={port}", "watch", str(tmp_path / "mine")) as server:
        while server.poll() is None:
            try:
                urllib.request.urlopen(f"http://localhost:{port}/_stcore/health", timeout=5).close()
                break
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        with watched_page(context) as page:
            page.goto(f"http://localhost:{port}/")
            yield page


def test_a_run_of_the_command_line_is_watched_and_its_death_is_reported(
    page: Page, training: subprocess.Popen
) -> None:
    page.wait_for_url("**/train*", timeout=PATIENCE)
    training.send_signal(signal.SIGCONT)
    expect(page.locator(STATUS)).to_contain_text("mine: training · step")
    page.wait_for_selector(f"{MAPS}[data-painted]")
    expect(page.locator(STATUS)).to_contain_text("held-out exact match")
    first = page.locator(f"{MAPS} canvas.cells").first.evaluate("(canvas) => canvas.toDataURL()")
    page.wait_for_function(
        """([parts, before]) => {
          const find = (root) => root.querySelector(parts) ??
            [...root.querySelectorAll("*")].map((e) => e.shadowRoot && find(e.shadowRoot)).find(Boolean);
          return find(document).toDataURL() !== before;
        }""",
        arg=["canvas.cells", first],
    )
    pause = page.locator(".st-key-train-pause button:visible").first
    expect(pause).to_be_disabled()
    pause.hover(force=True)
    expect(page.get_by_text("only its own terminal can pause or stop it").last).to_be_visible()
    training.send_signal(signal.SIGKILL)
    expect(page.locator(STATUS)).to_contain_text("its process ended before the last step")
    page.click(".st-key-train-open button")
    page.wait_for_selector(".head[data-painted]")
    assert "checkpoint=watched%2Fmine" in page.url
