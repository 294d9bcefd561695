"""A training run reports itself to whoever asks in its folder, and ends as one left alone."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from small import Reversal, reversal_trainer
from small_runs import RUN, assert_same_run, run

from models.errors import CheckpointError
from models.opening import load
from models.training import live_report
from models.training.fixed_example import example_fields
from models.training.live_report import (
    REPORT,
    REQUEST,
    read_report,
    reporting,
    request_attention,
    requested_site,
)
from models.training.recipe import StepRecord
from models.training.run_folder import LOCK_FILE, claim_folder, is_claimed
from viz_app.trainers.process import reported_weights

SITE = "decoder.layers.0.cross_attn"
HOLDER = """
import sys, time
from pathlib import Path
from models.training.run_folder import claim_folder

with claim_folder(Path(sys.argv[1])):
    print("claimed", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(live_report, "REPORT_SECONDS", 0.0)
    monkeypatch.setattr(live_report, "REPORT_SHARE", 1.0)


def watched_run(folder: Path, site: str | None, **changes) -> list[dict]:
    """Train, and return the report after each step."""
    trainer, reports = reversal_trainer(folder, **(RUN | changes)), []
    trainer.save_beginning()
    with reporting(trainer) as report:
        for record in trainer.train():
            if site is not None:
                request_attention(folder, site)
            report(record)
            reports.append(read_report(folder))
    return reports


def test_a_watched_run_equals_one_left_alone_and_leaves_nothing_behind(tmp_path):
    run(tmp_path / "alone", **RUN)
    reports = watched_run(tmp_path / "here", SITE)
    assert all(report["attention"]["site"] == SITE for report in reports)
    assert_same_run(tmp_path / "alone", tmp_path / "here")
    assert not (tmp_path / "here" / REPORT).exists()
    assert not (tmp_path / "here" / REQUEST).exists()


def test_the_report_holds_the_weights_of_its_step_and_the_losses_so_far(tmp_path):
    reports = watched_run(tmp_path, SITE, dropout=0.0)
    losses = [record.loss for record in reversal_trainer(tmp_path / "b", **(RUN | {"dropout": 0.0})).train()]  # fmt: skip
    assert [report["step"] for report in reports] == list(range(1, 14))
    assert [report["loss"] for report in reports] == losses
    assert reports[-1]["rows"] == json.loads((tmp_path / "training.json").read_text())["curve"]
    trainer = reversal_trainer(tmp_path / "c")
    fields = example_fields(trainer.task, trainer.model)
    for step in (1, 4):
        site, weights = reported_weights(reports[step - 1]["attention"])
        scope = load(tmp_path, device="cpu", snapshot=step)
        assert scope.training["example"] == fields, "the record names the same example"
        expected = scope.run(*fields).attention[site].weights().numpy()
        np.testing.assert_allclose(weights, expected, atol=2e-3)  # half precision


def test_the_report_of_a_long_run_has_the_newest_rows(tmp_path):
    trainer = reversal_trainer(tmp_path)
    trainer.curve = [
        {"step": step, "loss": 1.0} for step in range(1, live_report.REPORTED_ROWS + 8)
    ]
    described = live_report._Reports(trainer)._describe(StepRecord(507, 1.0, 0.1, 7, 7.0), "")
    assert described["rows"] == trainer.curve[7:]


def test_without_a_validation_case_there_is_no_example_and_the_run_continues(tmp_path, monkeypatch):
    held_out = Reversal.held_out
    monkeypatch.setattr(
        Reversal, "held_out", lambda self, n=None, *, validation=False: [] if validation else held_out(self, n)
    )  # fmt: skip
    assert all(report["attention"] == {} for report in watched_run(tmp_path, SITE))
    assert load(tmp_path, device="cpu").training["example"] == []


def test_without_a_watcher_there_is_no_report(tmp_path):
    assert watched_run(tmp_path, None) == [{}] * 13
    request_attention(tmp_path, SITE)
    assert requested_site(tmp_path) == SITE
    os.utime(tmp_path / REQUEST, (time.time() - 60,) * 2)
    assert requested_site(tmp_path) is None


def test_reports_take_a_small_share_of_the_time(tmp_path, monkeypatch):
    monkeypatch.setattr(live_report, "REPORT_SHARE", 0.07)
    calls = []
    monkeypatch.setattr(
        live_report, "write_bytes", lambda *one: (calls.append(one), time.sleep(0.2))
    )
    begun = time.perf_counter()
    watched_run(tmp_path, "", steps=30)
    assert 1 <= len(calls) <= 1 + 0.07 * (time.perf_counter() - begun) / 0.2 + 1


def test_a_full_disk_does_not_stop_the_run(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(live_report, "write_bytes", full)
    assert watched_run(tmp_path, "nowhere") == [{}] * 13


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "folder"])
def test_a_request_is_never_written_elsewhere(tmp_path, kind):
    outside = tmp_path / "outside"
    outside.write_text("mine")
    folder = tmp_path / "run"
    folder.mkdir()
    path = folder / REQUEST
    {
        "link": lambda: path.symlink_to(outside),
        "hard link": lambda: path.hardlink_to(outside),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
    }[kind]()
    request_attention(folder, SITE)  # does not wait for a reader either
    assert outside.read_text() == "mine"
    if kind == "pipe":
        assert requested_site(folder) is None, "a pipe is not waited for"


@pytest.mark.parametrize(
    "content",
    [
        b"{", b"\xff\xfe", b"[]", b'{"step": 3}', b'{"step": 3, "loss": NaN}', b'{"step": -1, "loss": 1.0}',
        b'{"step": 3, "loss": "<b>"}', b'{"step": 3, "loss": 1.0, "rows": 4}', b'{"step": 3, "loss": 1, "rows": [{"step": 1e999}]}',
        b"[" * 100_000, b" " * (live_report.MAX_REPORT_BYTES + 1),
    ],
)  # fmt: skip
def test_a_file_that_is_no_report_is_refused(tmp_path, content):
    (tmp_path / REPORT).write_bytes(content)
    with pytest.raises(CheckpointError):
        read_report(tmp_path)


def test_a_claimed_folder_is_distinguished_from_one_whose_process_was_killed(tmp_path):
    assert not is_claimed(tmp_path), "never claimed"
    environment = os.environ | {"PYTHONPATH": ":".join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], env=environment, stdout=subprocess.PIPE
    ) as other:
        other.stdout.readline()
        assert is_claimed(tmp_path)
        other.kill()
    assert not is_claimed(tmp_path)
    with claim_folder(tmp_path):
        assert is_claimed(tmp_path)


def test_checking_a_claim_does_not_disturb_the_run(tmp_path):
    with claim_folder(tmp_path):
        pass
    end = time.monotonic() + 1
    claims = 0
    while time.monotonic() < end:
        assert not is_claimed(tmp_path)
        with claim_folder(tmp_path):
            claims += 1
    assert claims


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_file_that_is_no_lock_claims_nothing(tmp_path, kind):
    outside = tmp_path / "outside"
    outside.write_text("mine")
    path = tmp_path / LOCK_FILE
    path.symlink_to(outside) if kind == "link" else os.mkfifo(path)
    assert not is_claimed(tmp_path)  # nor waits
    assert outside.read_text() == "mine"
