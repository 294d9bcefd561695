"""Runs that the app trains: their bounds, their queue, their folder and their owners."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
import streamlit
from small_runs import until

import models
from models import priority
from models.priority import AUTOGROUP
from models.training.recipe import snapshot_steps
from models.training.recipes import PLANS
from viz_app import checkpoints
from viz_app.controls.train import text
from viz_app.controls.train.form import SETTING_HELP
from viz_app.session import run_owners, training
from viz_app.trainers import folders, pool, process, tickets
from viz_app.trainers import run as run_module
from viz_app.trainers.pool import Pool
from viz_app.trainers.process import NICENESS, TrainingProcess, reported_weights
from viz_app.trainers.run import FAILED, PAUSED, RUNNING, STOPPED, WAITING, TrainingRun
from viz_app.trainers.settings import MAX_PARAMETERS, RunSettings, offered_tasks
from viz_app.trainers.tickets import Ticket

pytestmark = pytest.mark.usefixtures("own_trainers")

COPY = RunSettings("copy", "transformer")
SMALL = COPY.having(d_model=8, n_heads=2, seed=3)


# settings


def test_the_help_on_d_model_is_true_of_models_without_a_residual_stream():
    assert "d_model" in RunSettings("copy", "rnn").names
    assert "residual" not in SETTING_HELP["d_model"]


def test_every_plan_without_a_data_file_is_offered():
    assert {task: list(PLANS[task]) for task in offered_tasks()} == offered_tasks()
    assert {"copy", "dates"} <= offered_tasks().keys()
    assert "translation" not in offered_tasks()
    for task, names in offered_tasks().items():
        for model in names:
            settings = RunSettings(task, model)
            assert settings.problems() == {}
            n = len(snapshot_steps(settings.recipe))
            assert n * 2 * settings.n_parameters <= 20_000_000
            assert n >= 60 or n * (2 * settings.n_parameters + 20_000) > 19_000_000
            assert settings.recipe.steps == PLANS[task][model].recipe.steps


def test_an_unchanged_value_is_no_change():
    assert COPY.having(d_model=64, seed=1, norm="post", n_heads=None) == COPY
    assert SMALL.having(d_model=64).changed == (("n_heads", 2), ("seed", 3))
    assert SMALL.differences(COPY) == [("d_model", 8, 64), ("n_heads", 2, 4), ("seed", 3, 1)]
    # one task is harder with longer strings, so scores are not of the same ones
    others = RunSettings("copy", "rnn").differences(COPY)
    assert {("model", "rnn", "transformer"), ("max_letters", 6, 8)} <= set(others)
    other_task = RunSettings("sort", "transformer").differences(RunSettings("copy", "rnn"))
    assert "max_letters" not in {name for name, *_ in other_task}
    assert COPY.having(d_hidden=9) == COPY, "a Transformer has no d_hidden"


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"d_model": 30}, "d_model"),
        ({"n_heads": 3}, "d_model"),
        ({"d_model": 100_000}, "d_model"),
        ({"d_model": 64.5}, "d_model"),
        ({"d_model": True}, "d_model"),
        ({"n_heads": 0}, "n_heads"),
        ({"seed": -1}, "seed"),
        ({"norm": "/etc/passwd"}, "norm"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"learning_rate": float("inf")}, "learning_rate"),
        ({"d_model": 256, "n_encoder_layers": 4, "n_decoder_layers": 4}, "d_model"),
    ],
)
def test_a_bad_setting_is_named_and_never_trained(changes, name):
    settings = COPY.having(**changes)
    assert list(settings.problems()) == [name]
    with pytest.raises(ValueError, match=name):
        Pool(1, lambda owner: True).begin(settings, "a")
    assert folders.all_runs() == {}


def test_no_model_is_too_large():
    widest = COPY.having(d_model=256, n_encoder_layers=4, n_decoder_layers=4)
    assert widest.n_parameters > MAX_PARAMETERS
    assert f"{widest.n_parameters:,} parameters" in widest.problems()["d_model"]


@pytest.mark.parametrize("task", ["translation", "../copy", "", "copy\n"])
def test_settings_that_are_not_offered_are_refused(task):
    with pytest.raises(ValueError, match="no recipe"):
        RunSettings(task, "transformer")


# the queue


def test_the_queue_is_in_the_order_of_arrival(tmp_path):
    one, two, three = (Ticket(tmp_path) for _ in range(3))
    assert [each.before for each in (one, two, three)] == [0, 1, 2]
    one.give_up()
    assert [each.before for each in (two, three)] == [0, 1]
    two.give_up(), three.give_up()
    assert tickets.count_waiting(tmp_path) == 0


def test_a_killed_process_leaves_the_queue(tmp_path):
    if not (child := os.fork()):
        ticket = Ticket(tmp_path)
        (tmp_path / "taken").touch()
        time.sleep(60 if ticket else 0)
        os._exit(0)
    until((tmp_path / "taken").exists)
    mine = Ticket(tmp_path)
    assert mine.before == 1
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert mine.before == 0


class Unstarted(TrainingRun):
    """A run that is never trained."""

    def start(self) -> None:
        self.state = RUNNING

    def stop(self) -> None:
        self._end(STOPPED)


def test_a_session_has_one_run_at_a_time_and_sees_its_place_in_the_queue():
    trainers = Pool(2, lambda owner: True)
    runs = [Unstarted(COPY, owner) for owner in "abcde"]
    for run in runs:
        trainers.submit(run)
    until(lambda: runs[1].state == RUNNING)
    assert [trainers.place(run) for run in runs] == [0, 0, 1, 2, 3]
    said = [text.status(run, trainers.place(run)) for run in runs[2:4]]
    assert said == ["Waiting: 1 run before yours.", "Waiting: 2 runs before yours."]
    assert [run.state for run in runs[2:]] == [WAITING] * 3
    again = Unstarted(COPY, "a")  # the first session starts another: to the end of the queue
    trainers.submit(again)
    until(lambda: runs[2].state == RUNNING)
    assert runs[0].state == STOPPED
    assert trainers.place(again) == 3
    for run in (*runs, again):
        run.stop()


def test_a_flood_of_starts_leaves_one_run_and_a_bounded_queue(monkeypatch):
    trainers = Pool(1, lambda owner: True)
    runs = [Unstarted(COPY, "flood") for _ in range(30)]
    for run in runs:
        trainers.submit(run)
    assert tickets.count_waiting(folders.root()) == 1
    monkeypatch.setattr(pool, "MAX_WAITING", 3)
    others = [Unstarted(COPY, str(i)) for i in range(2)]
    for run in others:
        trainers.submit(run)
    with pytest.raises(ValueError, match="waiting already"):
        trainers.submit(Unstarted(COPY, "late"))
    for run in (*runs, *others):
        run.stop()


@pytest.mark.slow
def test_the_run_of_a_closed_page_ends_and_so_does_a_paused_one_while_others_wait(monkeypatch):
    monkeypatch.setattr(pool, "ORPHAN_SECONDS", 0.3)
    there = {"a", "b"}
    trainers = Pool(1, there.__contains__)
    one, two = Unstarted(COPY, "a"), Unstarted(COPY, "b")
    trainers.submit(one)
    until(lambda: one.state == RUNNING)
    time.sleep(0.6)
    assert one.state == RUNNING
    there.remove("a")
    until(lambda: one.state == STOPPED, 5)
    trainers.submit(two)
    until(lambda: two.state == RUNNING)
    monkeypatch.setattr(pool, "PAUSED_SECONDS", 0.3)
    two.state, two.paused_since = PAUSED, time.monotonic()
    time.sleep(0.8)
    assert two.state == PAUSED, "nobody waits"
    there.add("c")
    three = Unstarted(COPY, "c")
    trainers.submit(three)
    until(lambda: two.state == STOPPED and three.state == RUNNING, 5)
    three.stop()


def test_a_run_that_can_no_longer_be_queued_fails_and_later_ones_begin():
    trainers = Pool(1, lambda owner: True)
    one, two, three = (Unstarted(COPY, owner) for owner in "abc")
    trainers.submit(one)
    until(lambda: one.state == RUNNING)
    trainers.submit(two)
    shutil.rmtree(folders.root())
    until(lambda: two.state == FAILED, 5)
    assert two.message == "No such file or directory"
    trainers.submit(three)
    until(lambda: three.state == RUNNING, 5)
    for run in (one, three):
        run.stop()


def test_a_run_that_fails_to_begin_gives_the_reason_and_the_next_begins():
    class Failing(Unstarted):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    trainers = Pool(1, lambda owner: True)
    one, two = Failing(COPY, "a"), Unstarted(COPY, "b")
    trainers.submit(one)
    trainers.submit(two)
    until(lambda: two.state == RUNNING, 5)
    assert (one.state, one.message) == (FAILED, "can't start new thread")
    two.stop()


def test_a_run_that_is_resumed_while_the_queue_looks_at_it_stays_in_the_queue():
    class Resumed(Unstarted):
        @property
        def is_active(self) -> bool:
            was_active = super().is_active
            if not was_active and not resumed:
                resumed.append(threading.Thread(target=trainers.submit, args=(self,)))
                resumed[0].start()
                resumed[0].join(0.2)  # it waits for the queue's lock
            return was_active

    resumed: list[threading.Thread] = []
    trainers = Pool(1, lambda owner: True)
    run = Resumed(COPY, "a")
    run.state = STOPPED
    trainers._runs["a"] = run
    trainers._advance("a", run)
    resumed[0].join()
    until(lambda: run.state == RUNNING, 5)
    run.stop()


def test_an_error_about_one_session_holds_up_no_other():
    there = {"b": True}
    trainers = Pool(2, there.__getitem__)  # fails for a
    one, two = (Unstarted(COPY, owner) for owner in "ab")
    trainers.submit(one)
    trainers.submit(two)
    until(lambda: two.state == RUNNING, 5)
    for run in (one, two):
        run.stop()


def test_a_run_that_is_stopped_just_before_its_turn_does_not_begin(monkeypatch):
    monkeypatch.setattr(run_module, "TrainingProcess", lambda *arguments: pytest.fail("it began"))
    run = TrainingRun(COPY, "a")
    run.stop()
    run.start()
    assert (run.state, run.folder) == (STOPPED, None)


def test_without_trainers_nothing_begins():
    with pytest.raises(ValueError, match="no trainers"):
        Pool(0, lambda owner: True).begin(COPY, "a")


# the folder


def a_run(name: str, n_bytes: int, age: float) -> Path:
    folder = folders.root() / name
    (folder / "snapshots").mkdir(parents=True)
    (folder / "config.json").write_bytes(b"x" * n_bytes)
    os.utime(folder, (time.time() - age,) * 2)
    return folder


def test_the_oldest_ended_runs_make_room():
    from models.training.run_folder import claim_folder

    old, trained, new = a_run("a-1", 600, 30), a_run("b-1", 600, 20), a_run("c-1", 600, 10)
    with claim_folder(trained):
        os.utime(trained, (time.time() - 20,) * 2)
        folders.make_room(max_bytes=1300)
        assert [path.is_dir() for path in (old, trained, new)] == [False, True, True]
        folders.make_room(max_bytes=1)
    assert [path.is_dir() for path in (trained, new)] == [True, False]
    assert folders.create("a").name == "a-1"


def test_no_folder_is_made_before_a_run_begins(monkeypatch):
    monkeypatch.delenv(folders.RUNS_VARIABLE)
    folders._temporary.cache_clear()
    assert folders.all_runs() == {}
    assert checkpoints.available()
    assert folders._temporary.cache_info().currsize == 0


def test_a_link_in_the_folder_is_neither_offered_nor_removed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "config.json").write_text("{}")
    folders.root().mkdir(parents=True)
    (folders.root() / "link").symlink_to(outside)
    assert folders.all_runs() == {}
    folders.make_room(max_bytes=1)
    assert (outside / "config.json").is_file()


def test_in_a_shared_app_a_run_is_its_session_s_alone(monkeypatch):
    mine, theirs = a_run("copy-1", 9, 2), a_run("copy-2", 9, 1)
    assert checkpoints.folder("trained/copy-2") == str(theirs)
    monkeypatch.setenv(checkpoints.SHARED_VARIABLE, "1")
    monkeypatch.setattr(run_owners, "session_id", lambda: "me")
    state: dict[str, set[Path]] = {}
    monkeypatch.setattr(streamlit, "session_state", state)
    run_owners.grant_run(mine)
    assert set().union(*state.values()) == {mine}, "it goes with the session"
    assert checkpoints.folder("trained/copy-1") == str(mine)
    assert "trained/copy-2" not in checkpoints.available()
    for name in ("trained/copy-2", "trained/../runs/copy-1", str(mine), "trained/nowhere"):
        with pytest.raises(checkpoints.CheckpointError) as refused:
            checkpoints.folder(name)
        assert str(refused.value) == checkpoints.NOT_OFFERED


# what there is one of

ONCE = {
    "the trainers": (run_owners, "Pool", run_owners.pool, ()),
    "the watched run": (run_owners, "WatchedRun", run_owners._watched, ("runs",)),
    "its pictures": (training, "ExamplePictures", training._pictures, ("run",)),
    "the folder of runs": (tempfile, "mkdtemp", folders._temporary, ()),
}


@pytest.mark.parametrize("name", ONCE)
def test_sessions_that_come_at_once_share(name, monkeypatch):
    module, maker, shared, arguments = ONCE[name]
    both = threading.Barrier(2)

    def make(*given, **options):
        with suppress(threading.BrokenBarrierError):
            both.wait(0.2)  # until the other thread is here, too
        return str(time.monotonic_ns())

    monkeypatch.setattr(module, maker, make)
    shared.cache_clear()
    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(shared, *arguments) for _ in range(2)]
        assert asked[0].result() == asked[1].result()
    shared.cache_clear()


# a trainer


@pytest.mark.parametrize(
    "attention",
    [None, {}, {"site": "a"}, {"site": "a", "shape": [2, 2, 2], "float32": "AAAA"}, [1], "x"],
)
def test_a_report_without_a_picture(attention):
    assert reported_weights(attention) is None


def test_a_loss_of_an_earlier_step_is_not_shown_as_that_of_the_step_of_the_run():
    """A pause reports its step; the loss beside it may have been reported before."""
    run = TrainingRun(SMALL, "a")
    run._take({"state": RUNNING, "step": 3, "loss": 2.5})
    assert text.status(run, 0).endswith(f"step 3 of {run.steps} · loss 2.5")
    run._take({"state": PAUSED, "step": 5, "rows": []})
    assert text.status(run, 0).endswith(f"step 5 of {run.steps} · loss 2.5 at step 3")
    run._take(
        {"state": RUNNING, "step": 20, "rows": [{"step": 20, "loss": 0.5, "exact match": 99.998}]}
    )
    assert text.last_scores(run) == " · loss 0.5 · held-out exact match >99.99 % at step 20"
    run._take({"state": RUNNING, "step": 40, "rows": [{"step": 40, "loss": 0.0}]})
    assert text.last_scores(run).startswith(" · loss below 0.00005 · ")


def test_a_killed_run_shows_no_step_beyond_the_one_that_it_continues_at():
    run = TrainingRun(SMALL, "a")
    rows = [{"step": step, "loss": 1 / step} for step in (20, 40, 60)]
    run._take({"state": RUNNING, "step": 60, "rows": rows})
    run._take({"state": RUNNING, "step": 69, "loss": 0.01})
    run._take({"state": RUNNING, "step": 40, "rows": rows[:2]})
    assert run.points() == rows[:2]
    assert text.last_scores(run) == " · loss 0.025"
    run._take({"state": RUNNING, "step": 60, "rows": rows[2:]})
    assert run.points() == rows


@pytest.mark.slow
def test_a_run_that_fails_says_why(monkeypatch):
    monkeypatch.setattr(
        RunSettings, "arguments", lambda self, to: ["train", "copy", "--d-model=7", f"--out={to}"]
    )
    run = Pool(1, lambda owner: True).begin(SMALL, "a")
    until(lambda: run.state == FAILED)
    assert run.message == "d_model (7) must be divisible by n_heads (4)"


SERVER = """
import sys, time
from pathlib import Path
from viz_app.trainers.process import TrainingProcess
from viz_app.trainers.settings import RunSettings
settings = RunSettings("copy", "transformer").having(d_model=8, n_heads=2)
reports = []
trainer = TrainingProcess(settings.arguments(Path(sys.argv[1])), reports.append)
while not any(report.get("step", 0) > 3 for report in reports):
    time.sleep(0.02)
print(trainer._process.pid, flush=True)
time.sleep(600)
"""


def test_a_session_is_lowered_when_another_has_just_been(monkeypatch: pytest.MonkeyPatch):
    """Linux takes one change of the kind in a tenth of a second; then it says EAGAIN."""
    answers, written = [BlockingIOError(), BlockingIOError(), None], []

    class Autogroup:
        def write_text(self, text: str) -> None:
            written.append(text)
            if error := answers.pop(0):
                raise error

    monkeypatch.setattr(priority, "AUTOGROUP", Autogroup())
    monkeypatch.setattr(priority.os, "nice", lambda niceness: None)
    monkeypatch.setattr(priority.os, "getsid", lambda pid: os.getpid())
    monkeypatch.setattr(priority, "_PAUSE", 0)
    priority.lower_priority(7)
    assert written == ["7"] * 3


@pytest.mark.slow
@pytest.mark.skipif(not AUTOGROUP.is_file(), reason="the system has no autogroups")
def test_a_trainer_lets_the_processes_of_other_sessions_come_first(tmp_path, monkeypatch):
    """In a session of its own niceness alone does nothing where Linux has autogroups."""
    monkeypatch.setattr(process, "NICENESS", NICENESS)
    reports: list[dict] = []
    trainer = TrainingProcess(SMALL.arguments(tmp_path / "run"), reports.append)
    try:
        until(lambda: any("step" in report for report in reports))
        pid = trainer._process.pid
        assert os.getpriority(os.PRIO_PROCESS, pid) == NICENESS
        group = Path(f"/proc/{pid}/autogroup").read_text()
        assert group.rstrip().endswith(f" nice {NICENESS}")
    finally:
        trainer.stop()
        trainer.wait(30)


@pytest.mark.slow
def test_a_trainer_ends_with_its_server_however_that_ends(tmp_path):
    root = str(Path(models.__file__).parents[1])
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(tmp_path / "run")],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": root},
    )  # fmt: skip
    trainer = int(server.stdout.readline())
    os.kill(trainer, 0)
    server.kill()
    server.wait()

    def is_gone() -> bool:
        try:
            return Path(f"/proc/{trainer}/stat").read_text().split()[2] == "Z"
        except FileNotFoundError:
            return True

    until(is_gone)
    assert (tmp_path / "run" / "state.pt").is_file(), "after saving what it had"
