"""A training run of another process, read from its folder: its states, its numbers, and hostile folders."""

import json
import os
import re
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small import reversal_trainer
from small_runs import RUN

from models.opening import load
from models.training.live_report import REPORT, requested_site
from models.training.run_folder import claim_folder
from viz_app.controls.train import text
from viz_app.trainers import watched
from viz_app.trainers.example_pictures import ExamplePictures
from viz_app.trainers.run import DONE, RUNNING, STARTING, STOPPED, TRAINED, WAITING
from viz_app.trainers.watched import WatchedRun

SITE = "decoder.layers.0.cross_attn"
SETTINGS = RUN | {"score_cases": 3}


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(watched, "FOLDER_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(watched, "ASK", 0.0)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    list(reversal_trainer(folder, **SETTINGS).train())
    return folder


@pytest.fixture
def folder(finished, tmp_path) -> Path:
    """A copy of a finished run, to be changed."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def looked(folder: Path) -> WatchedRun:
    run = WatchedRun(folder)
    run.look()
    return run


def change(folder: Path, **entries: Any) -> None:
    record = json.loads((folder / "training.json").read_text())
    (folder / "training.json").write_text(json.dumps(record | entries))


def test_the_states_of_a_run_from_its_first_to_its_last(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    run = looked(folder)
    assert (run.state, run.problem, run.snapshots) == (WAITING, "", [])
    trainer = reversal_trainer(folder, **SETTINGS)
    with claim_folder(folder):
        run.look()
        assert run.state == STARTING
        steps = trainer.train()
        trainer.save_beginning()
        run.look()
        assert (run.state, run.step, run.steps) == (RUNNING, 0, 13)
        for _ in range(7):
            next(steps)
        run.look()
        assert (run.state, run.step) == (RUNNING, 5), "as of its last validation"
        assert requested_site(folder) == ""
    run.look()
    assert run.state == STOPPED
    assert "process ended before the last step" in text.watched_status(run)
    assert "made by the tests --resume" in text.watched_status(run)
    with claim_folder(folder):
        list(steps)
        run.look()
        assert (run.state, run.step) == (TRAINED, 13)
    run.look()
    assert run.state == DONE
    assert "never scored" in text.watched_status(run)
    change(folder, scores={"held-out exact match": 1.0})
    run.look()
    assert text.watched_status(run).startswith("run: done · step 13 of 13")


def test_a_run_that_stopped_early_is_finished(folder):
    curve = [{"step": s, "loss": 1.0, "validation loss": loss} for s, loss in [(1, 0.1), (2, 1), (3, 1)]]  # fmt: skip
    record = json.loads((folder / "training.json").read_text())
    change(folder, trained_to=3, curve=curve, recipe=record["recipe"] | {"patience": 3})
    assert looked(folder).state == STOPPED
    change(folder, trained_to=3, curve=curve, recipe=record["recipe"] | {"patience": 2})
    assert looked(folder).state == DONE


def test_the_curve_and_the_score_are_those_of_the_file(folder):
    run, record = looked(folder), json.loads((folder / "training.json").read_text())
    assert run.points() == record["curve"]
    assert run.metric == "exact match"
    last = [row for row in record["curve"] if "exact match" in row][-1]
    assert f"held-out exact match {last['exact match']:g} % at step {last['step']}" in text.last_scores(run)  # fmt: skip
    assert f"loss {record['curve'][-1]['loss']:.3g}" in text.last_scores(run)
    assert run.snapshots == load(folder, device="cpu").snapshots


def test_reports_continue_the_record_and_are_dropped_when_the_process_ends(folder):
    change(folder, trained_to=5)
    report = {"step": 9, "loss": 0.25, "rows": [{"step": 5, "loss": 9.0}, {"step": 7, "loss": 0.5}]}
    with claim_folder(folder):
        (folder / REPORT).write_text(json.dumps(report))
        run = looked(folder)
        assert run.step == 9
        curve = json.loads((folder / "training.json").read_text())["curve"]
        known = {row["step"]: row["loss"] for row in run.points()}
        assert known == {5: 9.0, 7: 0.5, 9: 0.25} | {row["step"]: row["loss"] for row in curve}
        (folder / REPORT).write_text(json.dumps(report | {"step": 4}))
        os.utime(folder / REPORT, (0, 0))
        run.look()
        assert run.step == 9, "a report from before the record"
        os.utime(folder / REPORT)
        run.look()
        assert run.step == 4, "resumed at a step before the record"
        assert 7 not in {row["step"] for row in run.points()}
    run.look()
    assert run.points() == curve


def test_the_pictures_are_those_of_the_saved_weights(folder):
    pictures = ExamplePictures(looked(folder))
    trace = pictures.first()
    example = json.loads((folder / "training.json").read_text())["example"]
    assert [trace.fields["source"], trace.fields["target"]] == example
    for step in pictures.run.snapshots:
        scope = load(folder, device="cpu", snapshot=step)
        expected = scope.run(*example).attention[SITE].weights().numpy()
        np.testing.assert_array_equal(pictures.weights(step, SITE), expected)
    shutil.rmtree(folder / "snapshots")
    assert looked(folder).snapshots == [13], "the weights themselves"
    alone = ExamplePictures(looked(folder))
    np.testing.assert_array_equal(alone.weights(13, SITE), pictures.weights(13, SITE))


@pytest.mark.slow
def test_another_run_in_the_folder_replaces_the_first(folder, tmp_path):
    run = looked(folder)
    pictures = ExamplePictures(run)
    pictures.first()
    before = pictures.weights(13, SITE)
    shutil.rmtree(folder)
    list(reversal_trainer(folder, **(SETTINGS | {"seed": 2})).train())
    run.look()
    pictures.first()
    assert (pictures.weights(13, SITE) != before).any()


def test_a_record_that_went_back_belongs_to_another_run(folder):
    run = looked(folder)
    assert (run.step, run.begun) == (13, 1)
    change(folder, trained_to=5)
    run.look()
    assert (run.step, run.begun) == (5, 2)
    change(folder, trained_to=12, curve=[])
    run.look()
    assert (run.step, run.state) == (12, STOPPED), "one step before the last"


@pytest.mark.parametrize(
    "entries",
    [{"data": {"file": "book.txt", "sha256": "0" * 64}}, {"device": "cuda"}, {"torch": "2.9.1"}],
)
def test_the_same_command_on_other_data_or_another_machine_is_another_run(folder, entries):
    run = looked(folder)
    change(folder, **entries)
    run.look()
    assert (run.step, run.begun) == (13, 2)


def test_weights_replaced_meanwhile_are_not_drawn_as_those_of_another_step(folder):
    run = looked(folder)
    shutil.rmtree(folder / "snapshots")
    run.described.training["step"] = 12
    pictures = ExamplePictures(run)
    assert pictures.weights(12, SITE) is None
    assert "replaced by newer ones" in pictures.problem


# hostile folders

BREAKS: dict[str, Callable[[Path], Any]] = {
    "half-written": lambda path: path.write_bytes(path.read_bytes()[:-40]),
    "binary": lambda path: path.write_bytes(os.urandom(4096)),
    "empty": lambda path: path.write_bytes(b""),
    "NaN": lambda path: path.write_text('{"curve": [{"step": 1, "loss": NaN}]}'),
    "infinite": lambda path: path.write_text('{"curve": [{"step": 1, "loss": 1e999}]}'),
    "nested": lambda path: path.write_text("[" * 200_000),
    "a list": lambda path: path.write_text("[1, 2]"),
    "rows of text": lambda path: path.write_text('{"curve": [{"step": 1, "loss": "<b>x</b>"}]}'),
    "an example of numbers": lambda path: path.write_text('{"example": [1, 2]}'),
    "huge": lambda path: os.truncate(path, 2**34),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a link": lambda path: (path.rename(path.parent / "r"), path.symlink_to(path.parent / "r")),
}


@pytest.mark.parametrize("how", BREAKS)
def test_an_unreadable_record_is_named_and_the_last_one_stays(folder, how):
    run = looked(folder)
    points, whole = run.points(), (folder / "training.json").read_bytes()
    BREAKS[how](folder / "training.json")
    begun = time.process_time()
    run.look()
    assert time.process_time() - begun < 5
    assert run.problem.startswith("training.json"), run.problem
    assert str(folder) not in run.problem
    assert f"run cannot be read: {run.problem}"[:200] in text.watched_status(run)
    assert run.points() == points
    fresh = looked(folder)
    assert fresh.problem
    assert not fresh.can_be_opened
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "training.json").write_bytes(whole)
    run.look()
    assert run.problem, "without a configuration it is no run"


def test_a_record_that_grows_while_it_is_read_is_read_whole_or_refused(folder):
    whole = (folder / "training.json").read_text()
    ends = threading.Event()

    def grow() -> None:
        while not ends.is_set():
            with (folder / "training.json").open("a") as file:
                file.write(" " * 4096)
            (folder / "training.json").write_text(whole)

    writer = threading.Thread(target=grow)
    writer.start()
    curve = json.loads(whole)["curve"]
    try:
        for _ in range(200):
            run = looked(folder)
            assert run.problem.startswith("training.json") if run.problem else run.points() == curve
    finally:
        ends.set()
        writer.join()
    assert not looked(folder).problem


@pytest.mark.parametrize("name", ["", "config.json", "model.safetensors", "snapshots", ".lock", REPORT])  # fmt: skip
def test_a_link_is_not_followed(folder, tmp_path, name):
    path, elsewhere = folder / name, tmp_path / "elsewhere"
    path.rename(elsewhere) if path.exists() else elsewhere.touch()
    path.symlink_to(elsewhere)
    run = looked(folder)
    assert "is a link, which is not followed" in run.problem
    assert not run.can_be_opened


def test_a_snapshot_that_is_a_link_or_a_pipe_is_ignored(folder, tmp_path):
    first, second = (folder / "snapshots" / f"{step:06d}.safetensors" for step in (1, 2))
    first.rename(tmp_path / "elsewhere")
    first.symlink_to(tmp_path / "elsewhere")
    second.unlink()
    os.mkfifo(second)
    assert not {1, 2} & set(looked(folder).snapshots)


OTHERS = {
    "another architecture": {"architecture": "gpt", "vocab_size": 9, "d_model": 33, "n_heads": 3, "n_layers": 1, "n_ctx": 13},
    "other sizes": {"d_model": 36},
    "a huge model": {"d_model": 3 * 10**6},
    "of Hugging Face": {"architecture": None, "model_type": "gpt2"},
}  # fmt: skip


@pytest.mark.parametrize("how", OTHERS)
def test_a_record_beside_another_model_draws_nothing_and_gives_the_reason(folder, how):
    config = json.loads((folder / "config.json").read_text())
    other = OTHERS[how] if "architecture" in OTHERS[how] else config | OTHERS[how]
    (folder / "config.json").write_text(json.dumps(other))
    run = looked(folder)
    pictures = ExamplePictures(run)
    assert pictures.first() is None
    assert run.problem or pictures.problem
    assert str(folder) not in run.problem + pictures.problem


@pytest.mark.parametrize(
    "example",
    [[], ["abc"] * 9, ["a" * 20_000], ["abc", "cba", "abc"], ["a" * 200, "a"], ["", ""], ["é", "\u202e"]],
)  # fmt: skip
def test_an_example_that_the_model_cannot_read_is_not_drawn(folder, example):
    change(folder, example=example, held_out=[])
    pictures = ExamplePictures(looked(folder))
    if pictures.first() is None:
        what = "run's example" if example == ["a" * 200, "a"] else ""
        assert re.match(f"The {what}.* cannot be drawn: ", pictures.problem)
    else:
        assert list(pictures.trace.fields.values()) == example


def test_a_run_is_continued_with_its_own_command(folder):
    change(
        folder, command="attnscope train copy --out 'my  run' --overwrite", trained_to=1, curve=[]
    )
    command = "attnscope train copy --out 'my  run'"
    assert f"Continue it with: {command} --resume" in text.watched_status(looked(folder))
    (folder / "state.pt").unlink()  # as if it was killed before its first state was saved
    assert f"Begin it again with: {command} --overwrite" in text.watched_status(looked(folder))


def test_a_measure_s_name_is_printable_and_short(folder):
    name = "<img src=x onerror=alert(1)>\n" + "x" * 500
    change(folder, curve=[{"step": 1, "validation loss": 1.0, name: 3.0}])
    run = looked(folder)
    assert len(run.metric) <= 60
    assert run.metric.isprintable()
    text.last_scores(run)


def test_the_measure_of_a_task_is_the_first_of_its_validations(folder):
    measures = {
        "validation loss": 1.0,
        "cross-attention entropy": 0.5,
        "accuracy": 3.0,
        "induction score": 0.1,
    }
    change(folder, curve=[{"step": 1, "loss": 2.0} | measures, {"step": 2, "loss": 1.0}])
    assert looked(folder).metric == "accuracy"
    # what is measured of the weights kept at any step is not what is measured at validations
    del measures["accuracy"]
    change(folder, curve=[{"step": 1, "loss": 2.0} | measures])
    assert looked(folder).metric == ""


def test_the_jump_of_the_induction_score_is_told_from_its_first_step_to_its_last(folder):
    scores = {1: 0.02, 5: 0.03, 6: 0.4, 13: 0.5}
    change(
        folder, curve=[{"step": n, "loss": 2.0, "induction score": s} for n, s in scores.items()]
    )
    assert "up by 0.37 between steps 5 and 6" in text.last_scores(looked(folder))


def test_a_long_curve_is_thinned_but_keeps_its_last_row_and_all_measurements(folder):
    measures = {
        step: {"validation loss": 0.5, "exact match": 7.0} for step in range(499, 29_999, 499)
    }
    rows = [{"step": step, "loss": 1.0} | measures.get(step, {}) for step in range(1, 30_000)]
    change(folder, curve=rows)
    run = looked(folder)
    points = run.points()
    assert len(points) <= watched.MAX_CURVE_ROWS + len(measures) + 1
    assert points[-1]["step"] == 29_999
    assert [row["step"] for row in points if "exact match" in row] == list(measures)
    assert f"at step {max(measures):,}" in text.last_scores(run)
