"""`attnscope export-site` as a command: refusals, and an export that is stopped."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "viz_app.command", "export-site"]
PATIENCE = 300  # s


def test_a_folder_with_other_files_is_refused_before_anything_is_run(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    run = subprocess.run(
        [*COMMAND, str(tmp_path)], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert run.returncode == 1
    assert "contains something else, thesis.txt" in run.stderr
    assert "views" not in run.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C reaches a process there another way")
def test_a_stopped_export_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    run = subprocess.Popen([*COMMAND, str(folder)], stderr=subprocess.PIPE)
    assert run.stderr
    said = b""
    while b"3 views" not in said:
        more = run.stderr.read1()
        assert more, said
        said += more
    run.send_signal(signal.SIGINT)
    said += run.communicate(timeout=PATIENCE)[1]
    assert run.returncode == 130
    assert said.decode().splitlines()[-1] == "attnscope: stopped"
    assert b"Traceback" not in said
    assert list(tmp_path.iterdir()) == []
