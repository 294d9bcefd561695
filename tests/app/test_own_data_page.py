"""The page Train on a user's data, without a browser: the sentences about them, and their run."""

import time

import numpy as np
import pytest
from app_parts import app_at, picture, said
from streamlit.testing.v1 import AppTest

import models
from models.training.recipes import settings_line
from viz_app import checkpoints
from viz_app.controls.train import text, watching
from viz_app.trainers import own_data, pool
from viz_app.trainers.run import TrainingRun
from viz_app.trainers.settings import RunSettings

pytestmark = pytest.mark.usefixtures("own_trainers")

PAIRS = "\n".join(f"word {i} <b>here\the{i} x" for i in range(300)).encode()


def next_run(app: AppTest) -> str:
    return str(said(app, "note train-next-line"))


def page(**more: str) -> AppTest:
    return app_at("train", **{"train-task": "own pairs"} | more)


def with_data(app: AppTest, name: str = "<img src=x>.tsv") -> own_data.OwnData:
    data = own_data.keep_own_data(PAIRS, "own pairs", name)
    app.session_state["live session"].own_data = data
    app.run()
    assert not app.exception
    return data


def test_without_data_nothing_can_begin_and_the_box_names_the_expected_form() -> None:
    app = page()
    assert app.button(key="train-start").disabled
    assert text.NO_DATA in next_run(app)
    box = said(app, "train-own-data")
    assert box["expects"] == own_data.DATA_KINDS["own pairs"].expects
    assert box["kept"] == ""
    app.session_state["training"].start(None)
    assert app.session_state["training"].run is None


def test_with_data_the_recipe_is_stated_in_words_and_the_form_changes_it() -> None:
    app = page()
    data = with_data(app)
    assert said(app, "train-own-data")["kept"] == f"<img src=x>.tsv: {data.in_words}"
    assert not app.button(key="train-start").disabled
    assert f"{data.in_words}: {settings_line(data.plan('transformer'))}" in next_run(app)
    app.number_input(key="train-d-model").set_value(32).run()
    assert "d_model 32" in next_run(app)
    assert "differs from the recipe: d_model 32 (64)" in next_run(app)
    app.number_input(key="train-d-model").set_value(30).run()
    assert app.button(key="train-start").disabled
    assert "must be divisible" in str(said(app, "note train-d_model"))
    app.selectbox(key="train-task").set_value("own text").run()
    assert app.button(key="train-start").disabled, "they are pairs"


@pytest.mark.slow
def test_a_run_on_a_users_data_is_stepped_drawn_and_names_its_folder() -> None:
    app = page(**{"train-d-model": "16", "train-n-heads": "2"})
    with_data(app)
    app.button(key="train-step-button").click().run()
    run = app.session_state["training"].run
    deadline = time.monotonic() + 180
    while (run.state, run.step) != ("paused", 1):
        assert time.monotonic() < deadline, run
        time.sleep(0.05)
    app.run()
    assert not app.exception
    example = models.load(run.folder, device="cpu").training["example"]
    assert f"{example[0]}\t{example[1]}".encode() in PAIRS
    header, arrays = picture(app, "train-maps")
    scope = models.load(run.folder, device="cpu", snapshot=1)
    site = scope.run(*example).attention["decoder.layers.1.cross_attn"]
    drawn = np.stack([arrays[f"map{i}"] for i in range(len(header["maps"]))])
    np.testing.assert_array_equal(drawn, site.weights().numpy())
    assert run.settings.resumed(run.folder) in str(said(app, "note train-kept-line"))
    run.stop()


def test_the_name_of_a_file_is_shown_literally() -> None:
    files = [own_data.keep_own_data(PAIRS + rest, "own pairs", "a*b*.tsv") for rest in (b"", b"x")]
    files.append(own_data.keep_own_data(PAIRS, "own pairs", "$1 of $2.tsv"))
    now, longer, other = (
        TrainingRun(RunSettings("translation", "transformer", own=data), "me") for data in files
    )
    assert watching._which_before(other, longer).endswith(r"data \$1 of \$2.tsv (a\*b\*.tsv).")
    assert watching._which_before(now, longer).endswith(
        f"data {files[0].in_words} ({files[1].in_words})."
    )


def test_a_shared_app_without_trainers_takes_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pool.TRAINERS_VARIABLE, "0")
    monkeypatch.setenv(checkpoints.SHARED_VARIABLE, "1")
    app = page()
    assert text.OFF in [one.value for one in app.markdown]
    assert not [one for one in app.button if (one.key or "").startswith("train")]
