"""The page Train on a run of the command line: its numbers and pictures, and the actions that are disabled."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from app_parts import app_at, picture, said
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

import models
from models import cli
from models.training.run_folder import claim_folder
from viz_app import checkpoints
from viz_app.controls.train import text
from viz_app.session import run_owners
from viz_app.trainers import folders, pool, watched

SITE = "decoder.layers.0.cross_attn"
RUN = "--d-model=8 --n-heads=2 --threads=1 --device=cpu --steps=12 --validate-every=6 --score-cases=3 --save-every=6 --snapshots".split()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "mine"
    assert cli.main(["train", "copy", f"--out={folder}", *RUN]) == 0
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of a finished run, watched."""
    copy = Path(shutil.copytree(finished, tmp_path / "mine"))
    monkeypatch.setenv(run_owners.WATCHED, str(copy))
    monkeypatch.setenv(folders.RUNS_VARIABLE, str(tmp_path / "runs"))
    monkeypatch.setattr(watched, "FOLDER_LOOK_SECONDS", 0.0)
    run_owners.pool.cache_clear()
    run_owners._watched.cache_clear()
    yield copy
    run_owners.pool.cache_clear()
    run_owners._watched.cache_clear()


def status(app: AppTest) -> str:
    return str(said(app, "note train-status-line"))


def shown_weights(app: AppTest) -> np.ndarray:
    header, arrays = picture(app, "train-maps")
    return np.stack([arrays[f"map{i}"] for i in range(len(header["maps"]))])


@pytest.mark.slow
def test_its_numbers_and_pictures_are_those_of_its_files(folder: Path) -> None:
    app = app_at("train")
    record = json.loads((folder / "training.json").read_text())
    assert "mine: done · step 12 of 12" in status(app)
    assert f"{record['curve'][-1]['exact match']:g} % at step 12" in status(app)
    for step in (12, 3):
        app.select_slider(key="train-step").set_value(step).run()
        scope = models.load(folder, device="cpu", snapshot=step)
        site = scope.run(*record["example"]).attention[SITE]
        np.testing.assert_array_equal(shown_weights(app), site.weights().numpy())
    chart = json.loads(app.get("vega_lite_chart")[0].proto.spec)
    losses = chart["layer"][1]["layer"][0]["data"]["values"]
    assert [(one["step"], one["at"]) for one in losses] == [
        (row["step"], row["loss"]) for row in record["curve"]
    ]
    assert [one["step"] for one in chart["layer"][0]["data"]["values"]] == [3]


@pytest.mark.slow
def test_the_page_says_whether_its_process_is_running(folder: Path) -> None:
    record = json.loads((folder / "training.json").read_text())
    (folder / "training.json").write_text(json.dumps(record | {"trained_to": 6}))
    app = app_at("train")
    assert "not training: its process ended before the last step · step 6 of 12" in status(app)
    with claim_folder(folder):
        app.run()
        assert "training · step 6 of 12" in status(app)
        assert text.ONLY_IN_TERMINAL in status(app)


def test_disabled_controls_give_the_reason(folder: Path) -> None:
    with claim_folder(folder):
        app = app_at("train")
        for key in ("train-pause", "train-step-button", "train-reset"):
            assert app.button(key=key).disabled
            assert app.button(key=key).help == text.ONLY_IN_TERMINAL
        assert app.selectbox(key="train-speed").disabled
        assert not app.button(key="train-start").disabled
        training = app.session_state["training"]
        for act in (training.pause, training.go_on, training.reset, lambda: training.set_speed(1)):
            act()
        assert training.watched is not None


def test_a_run_begun_here_is_shown_beside_it_and_a_reset_leads_back(folder: Path) -> None:
    app = app_at("train", **{"train-d-model": "8", "train-n-heads": "2"})
    app.button(key="train-start").click().run()
    assert not app.exception
    training = app.session_state["training"]
    assert training.controlled is not None
    assert training.before.run is run_owners.watched_run()
    assert not app.button(key="train-reset").disabled
    app.button(key="train-reset").click().run()
    assert training.watched is run_owners.watched_run()
    assert "mine: done" in status(app)


def test_a_step_of_it_opens_on_the_other_pages(folder: Path) -> None:
    app = app_at("train")
    app.select_slider(key="train-step").set_value(3).run()
    app.button(key="train-open").click().run()
    values = app.session_state["url"].values
    assert (values["checkpoint"], values["growth-step"]) == ("watched/mine", 3)
    assert checkpoints.folder("watched/mine") == str(folder)


@pytest.mark.slow
def test_the_last_step_opens_without_the_snapshot_that_was_opened_before(folder: Path) -> None:
    (folder / "snapshots" / "000012.safetensors").unlink()
    app = app_at("train")
    for step, snapshot in ((3, (True, 3)), (12, (False, None))):
        app.select_slider(key="train-step").set_value(step).run()
        app.button(key="train-open").click().run()
        values = app.session_state["url"].values
        assert (values["growth"], values["growth-step"]) == snapshot
        app._page_hash = calc_hash("train")
        app.run().run()


def test_a_shared_app_without_trainers_shows_it_and_begins_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(pool.TRAINERS_VARIABLE, "0")
    monkeypatch.setenv(checkpoints.SHARED_VARIABLE, "1")
    app = app_at("train")
    assert "mine: done" in status(app)
    assert app.button(key="train-start").disabled
    assert app.button(key="train-start").help == text.NO_TRAINERS
    assert not [box for box in app.number_input if (box.key or "").startswith("train")]
    assert checkpoints.folder("watched/mine") == str(folder)


HOSTILE = ["</script><img src=x onerror=alert(1)>", "a" * 300]


@pytest.mark.parametrize("damage", ["binary", "gone", "another model", "markup"])
def test_a_hostile_folder_is_named_and_the_page_stays(folder: Path, damage: str) -> None:
    record = json.loads((folder / "training.json").read_text())
    if damage == "binary":
        (folder / "training.json").write_bytes(b"\xff\x00" * 999)
    elif damage == "gone":
        shutil.rmtree(folder)
    elif damage == "another model":
        config = {"architecture": "gpt", "vocab_size": 7, "d_model": 8, "n_heads": 2, "n_layers": 1}
        (folder / "config.json").write_text(json.dumps(config))
    else:
        entries = {"task": HOSTILE[0], "command": HOSTILE[0], "example": HOSTILE, "trained_to": 2}
        (folder / "training.json").write_text(json.dumps(record | entries))
    app = app_at("train")
    assert not app.exception
    lines = status(app) + str(said(app, "note train-weights-line") if damage not in ("binary", "gone") else "")  # fmt: skip
    expected = {
        "binary": "not readable as JSON",
        "gone": "no run yet",
        "another model": "cannot be drawn",
        "markup": "cannot be drawn",
    }
    assert expected[damage] in lines
    assert not [one for one in app.markdown if "<img" in one.value]
