"""A training run controlled by another process ends exactly as one left alone, whatever it is asked meanwhile."""

import base64
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small import reversal_trainer
from small_runs import RUN, assert_same_run, run

from models.checkpoint_files import snapshots
from models.opening import load
from models.training import controlled
from models.training.controlled import ControlledTraining
from models.training.fixed_example import FixedExample, example_fields

SITE = "decoder.layers.0.cross_attn"


class Followed:
    """A controlled run in a thread of this process, with the reports it has sent."""

    def __init__(self, folder: Path, begins: str, **changes: Any) -> None:
        read, write = os.pipe()
        self.commands = os.fdopen(write, "w")
        self.say(begins)
        folder.parent.mkdir(parents=True, exist_ok=True)
        self.path = folder.parent / f"{folder.name}.reports"
        self.trainer = reversal_trainer(folder, **(RUN | changes))
        self.controlled = ControlledTraining(self.trainer, os.fdopen(read), self.path.open("w"))
        self.ended: list[bool] = []
        self.thread = threading.Thread(target=self._follow)
        self.thread.start()

    def _follow(self) -> None:
        torch.set_num_threads(1)
        self.ended.append(self.controlled.follow())

    def say(self, *lines: str) -> None:
        for line in lines:
            print(line, file=self.commands, flush=True)

    @property
    def reports(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def wait(self, state: str, step: int | None = None) -> dict[str, Any]:
        """Wait for a report of this state, at this step if one is named."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for report in self.reports:
                if report["state"] == state and step in (None, report.get("step")):
                    return report
            time.sleep(0.01)
        raise AssertionError(f"no report {state} {step}: {self.reports}")


@contextmanager
def followed(folder: Path, *begins: str, **changes: Any) -> Iterator[Followed]:
    one = Followed(folder, "\n".join(begins), **changes)
    try:
        yield one
    finally:
        one.commands.close()
        one.thread.join(60)
    assert not one.thread.is_alive()


def test_a_run_that_is_watched_paused_and_stepped_equals_one_left_alone(tmp_path):
    run(tmp_path / "alone", **RUN)
    with followed(tmp_path / "here", "pause", f"watch {SITE}", "speed 500") as one:
        one.wait("paused", 0)
        for step in (1, 2, 3):
            one.say("step")
            assert "attention" in one.wait("paused", step)
        one.say("nonsense", "speed ten", "watch", "speed -1", "watch nowhere", "go")
        one.thread.join(60)
        assert one.ended == [True]
    assert_same_run(tmp_path / "alone", tmp_path / "here")
    curve = [row for report in one.reports for row in report.get("rows", ())]
    assert curve == one.trainer.curve
    assert one.reports[-1]["state"] == "trained"


def test_a_pause_takes_no_step_and_one_step_exactly_one(tmp_path):
    with followed(tmp_path, "pause") as one:
        one.wait("paused", 0)
        one.say("step")
        one.wait("paused", 1)
        time.sleep(0.1)
        assert one.trainer.step == 1
    assert one.ended == [False]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stop", "end of the commands"])
def test_it_stops_with_its_controller_and_can_be_resumed(tmp_path, how):
    run(tmp_path / "alone", **RUN)
    with followed(tmp_path / "here", "pause", save_every=100) as one:
        one.wait("paused", 0)
        one.say("step\nstep\nstep\nstep")
        one.wait("paused", 4)
        one.commands.close() if how != "stop" else one.say("stop")
        one.wait("stopped", 4)
    resumed = reversal_trainer(tmp_path / "here", **(RUN | {"save_every": 100}))
    assert resumed.resume() == 4
    assert load(tmp_path / "here").training["step"] == 4
    list(resumed.train())
    ours, theirs = (load(tmp_path / name).model.state_dict() for name in ("here", "alone"))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_it_can_be_opened_from_its_first_step_on(tmp_path):
    with followed(tmp_path, "pause") as one:
        one.wait("paused", 0)
        assert snapshots(tmp_path) == [0]
        one.say("step")
        one.wait("paused", 1)
        assert load(tmp_path).training["step"] == 0
        assert snapshots(tmp_path) == [0, 1]


def test_the_attention_reported_is_that_of_the_weights_at_the_step(tmp_path):
    with followed(tmp_path, "pause", f"watch {SITE}", dropout=0.0) as one:
        one.wait("paused", 0)
        for step in (1, 2, 3, 4):
            one.say("step")
            one.wait("paused", step)
        assert one.trainer.model.training, "as the trainer left it"
        fields = example_fields(one.trainer.task, one.trainer.model)
    for step in (1, 4):
        report = next(r for r in one.reports if r["state"] == "paused" and r["step"] == step)
        told = report["attention"]
        weights = np.frombuffer(base64.b64decode(told["float32"]), "<f4").reshape(told["shape"])
        site = load(tmp_path, device="cpu", snapshot=step).run(*fields).attention[told["site"]]
        # a snapshot holds half precision
        np.testing.assert_allclose(weights, site.weights().numpy(), atol=2e-3)
    first, last = (
        r["attention"]["float32"]
        for r in one.reports
        if r["state"] == "paused" and r["step"] in (1, 4)
    )
    assert first != last


def test_the_example_is_the_first_validation_case_that_the_model_can_read(tmp_path):
    trainer = reversal_trainer(tmp_path)
    words = trainer.task.held_out_words = [*["ab" * 30, "a"] * 50, "cde", "b", "ed", "a"]
    assert example_fields(trainer.task, trainer.model) == ["cde", "edc"]
    del words[1:]
    assert example_fields(trainer.task, trainer.model) == [words[0], words[0][::-1]]


def test_a_missing_or_too_large_site_is_not_reported(tmp_path, monkeypatch):
    trainer = reversal_trainer(tmp_path)
    example = FixedExample(trainer.task, trainer.model)
    assert example.weights("nowhere") == {}
    assert example.weights(SITE)["shape"][0] == trainer.model.config.n_heads
    monkeypatch.setattr("models.training.fixed_example.MAX_WATCHED_WEIGHTS", 3)
    assert example.weights(SITE) == {}


def test_a_pause_is_answered_while_a_step_takes_long(tmp_path, monkeypatch):
    with followed(tmp_path, "pause") as one:
        one.wait("paused", 0)
        update, begun, answered = one.trainer._update, threading.Event(), threading.Event()

        def slow(*arguments: Any) -> tuple[float, int]:
            begun.set()
            answered.wait(60)
            return update(*arguments)

        monkeypatch.setattr(one.trainer, "_update", slow)
        one.say("go")
        assert begun.wait(60)
        one.say("pause")
        one.wait("pausing")
        answered.set()
        one.wait("paused", 1)
    assert controlled.SOON <= 0.2  # s


@pytest.mark.slow
def test_watching_takes_a_small_share_of_the_processor_time(tmp_path, monkeypatch):
    monkeypatch.setattr(controlled, "STEP_REPORT_SECONDS", 0.0)
    spent = []  # (on pictures before, in all before) at each picture

    def busy(self: FixedExample, site: str) -> dict[str, Any]:
        begun = time.thread_time()
        spent.append((0.004 * len(spent), begun))
        while time.thread_time() < begun + 0.004:
            pass
        return {}

    monkeypatch.setattr(FixedExample, "weights", busy)
    with followed(tmp_path, f"watch {SITE}", steps=60, validate_every=60, save_every=60) as one:
        one.thread.join(60)
    between = spent[1:-1]  # the first and the last picture are always made
    assert between
    assert len(spent) < 60
    begun = one.controlled._started
    assert all(watching <= 0.08 * (total - begun) for watching, total in between)


def test_a_speed_is_kept(tmp_path):
    with followed(tmp_path, "speed 20", steps=9, validate_every=9) as one:
        begun = time.monotonic()
        one.thread.join(60)
        assert time.monotonic() - begun > 8 / 20 - 0.05


def test_an_endless_command_is_read_in_pieces(tmp_path):
    with followed(tmp_path, "pause") as one:
        one.wait("paused", 0)
        one.say("x" * 100_000, "step")
        one.wait("paused", 1)
