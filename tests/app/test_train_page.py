"""The page Train, without a browser: its settings, a run stepped forwards and back, and two runs."""

import json
import re
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from app_parts import app_at, in_session, page_at, picture, said
from streamlit.testing.v1 import AppTest

import models
from models.tasks import open_task
from models.training.fixed_example import example_fields
from models.weights import blank
from viz_app import checkpoints
from viz_app.controls.train import buttons, text, watching
from viz_app.drawing.loss_curve import loss_text
from viz_app.drawing.provenance import file_name
from viz_app.drawing.stamp import facts
from viz_app.session import pinned
from viz_app.session.parameters import declared_parameters
from viz_app.session.training import Training
from viz_app.trainers import pool
from viz_app.trainers.run import PAUSED, RUNNING, TrainingRun
from viz_app.trainers.settings import RunSettings, offered_tasks

pytestmark = pytest.mark.usefixtures("own_trainers")

SIZES = {"train-d-model": "8", "train-n-heads": "2"}
SITE = "decoder.layers.0.cross_attn"


def training_of(app: AppTest) -> Training:
    return app.session_state["training"]


def click(app: AppTest, key: str) -> None:
    app.button(key=f"train-{key}").click().run()
    assert not app.exception


def stepped(app: AppTest, n: int) -> None:
    """Take steps until the run is paused at this one."""
    for step in range((training_of(app).run.step if training_of(app).run else 0) + 1, n + 1):
        click(app, "step-button")
        deadline = time.monotonic() + 120
        while (training_of(app).run.state, training_of(app).run.step) != ("paused", step):
            assert time.monotonic() < deadline, training_of(app).run
            time.sleep(0.05)
    app.run()


def shown(app: AppTest, key: str = "train-maps") -> tuple[dict[str, Any], np.ndarray]:
    header, arrays = picture(app, key)
    return header, np.stack([arrays[f"map{i}"] for i in range(len(header["maps"]))])


def test_a_bad_setting_is_named_at_its_control_and_nothing_starts() -> None:
    app = app_at("train", **{"train-d-model": "30"})
    assert "d_model (30) must be divisible by n_heads (4)" in str(said(app, "note train-d_model"))
    assert app.button(key="train-start").disabled
    assert app.button(key="train-step-button").disabled
    app.number_input(key="train-d-model").set_value(32).run()
    assert not app.button(key="train-start").disabled
    assert "differs from the recipe: d_model 32 (64)" in str(said(app, "note train-next-line"))


@pytest.mark.slow(except_one_in=5)
@pytest.mark.parametrize(
    ("task", "model"), [(task, model) for task, all in offered_tasks().items() for model in all]
)
def test_the_task_is_explained_by_the_example_that_its_run_draws(task: str, model: str) -> None:
    settings = RunSettings(task, model)
    line = text.task_in_words(settings.opened)
    texts = re.findall("“(.*?)”", line)
    drawn = example_fields(settings.opened, blank(settings.config))
    # a text that never ends is drawn as far as a record stores it
    assert any("".join(each).startswith("".join(drawn)) for each in (texts, texts[1:]))
    assert ("last digit first" in line) == (task == "addition")
    if task == "addition":
        assert int(texts[1][::-1]) == sum(map(int, texts[0].rstrip("=").split("+")))
    assert line.startswith(settings.opened.purpose[:1].upper())


def test_the_explanation_stands_below_the_settings() -> None:
    app = app_at("train", **{"train-task": "sort", "train-model": "gpt"})
    line = str(said(app, "note train-next-line"))
    assert "Sorts letters" in line
    assert "parameters" in line


@pytest.mark.parametrize(
    "address",
    [
        {"train-d-model": "100000"},
        {"train-task": "../../etc/passwd", "train-model": "<img src=x>"},
        {"train-task": "translation"},
        {"train-norm": "x", "train-seed": "-1", "train-learning-rate": "1e99"},
        {"train-step": "12", "train-site": "nowhere"},
    ],
)
def test_an_address_sets_only_values_that_are_offered(address: dict[str, str]) -> None:
    app = app_at("train", **address)
    assert not app.exception
    assert not app.button(key="train-start").disabled
    assert app.selectbox(key="train-task").value == "copy"


@pytest.mark.slow
def test_a_run_is_stepped_replayed_and_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_at("train", **SIZES)
    assert text.NOTHING_TRAINED in [one.value for one in app.markdown]
    stepped(app, 3)
    run = training_of(app).run
    assert run.snapshots == [0, 1, 2, 3]
    (case,) = open_task("copy").held_out(1, validation=True)
    for step in (3, 1):
        app.select_slider(key="train-step").set_value(step).run()
        header, weights = shown(app)
        trace = models.load(run.folder, device="cpu", snapshot=step).run(*case.fields)
        site = trace.attention[SITE]
        np.testing.assert_array_equal(weights, site.weights().numpy())
        assert f"step {step}" in header["title"]
        known = {f"{name}: {value}" for name, value in facts(trace).items()}
        assert {f"training step: {step}", f"model: {run.folder.name}"} <= known
        assert set(header["about"].split("\n")) <= known
        assert header["file"] == file_name(trace, "attention")
        assert [label[0] for label in header["cols"]] == [*case.source, "[end]"]
    rule = json.loads(app.get("vega_lite_chart")[0].proto.spec)["layer"][0]
    assert [one["step"] for one in rule["data"]["values"]] == [1]
    click(app, "open")
    values = app.session_state["url"].values
    assert values["checkpoint"] == run.name
    assert checkpoints.folder(run.name) == str(run.folder)
    assert (values["growth-step"], values["site"]) == (1, SITE)
    assert (values["source"], values["target"]) == (case.source, case.references[0])
    run.stop()


@pytest.mark.slow
def test_a_run_that_pauses_between_its_buttons_and_its_picture_can_continue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = app_at("train", **SIZES)
    stepped(app, 1)
    run, choose_site = training_of(app).run, buttons.choose_site
    run.state = RUNNING
    monkeypatch.setattr(
        buttons, "choose_site", lambda: (setattr(run, "state", PAUSED), choose_site())
    )
    app.run()
    assert app.button(key="train-pause").label == "Resume"
    click(app, "reset")
    assert training_of(app).run is None


@pytest.mark.slow
def test_the_run_before_stays_beside_the_next_and_what_differs_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = app_at("train", **SIZES)
    stepped(app, 2)
    first = training_of(app).run
    app.number_input(key="train-seed").set_value(2).run()
    click(app, "start")
    training_of(app).run.pause()
    deadline = time.monotonic() + 120
    while training_of(app).run.state != "paused":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    app.run()
    assert training_of(app).before.run is first
    assert first.state == "stopped"
    assert "**The run before** differs in: seed 1 (2)." in [one.value for one in app.markdown]
    losses = json.loads(app.get("vega_lite_chart")[0].proto.spec)["layer"][1]["layer"][0]
    drawn = [one["value"] for one in losses["data"]["values"] if one["run"] == "the run before"]
    assert drawn == [loss_text(row["loss"]) for row in first.points()]
    ours, theirs = shown(app)[1], shown(app, "train-maps-before")[1]
    assert ours.shape == theirs.shape
    assert not np.array_equal(ours, theirs)
    with monkeypatch.context() as patch:  # which read other texts
        patch.setattr(TrainingRun, "task", property(lambda run: ["sort", "copy"][run is first]))
        assert "train-compare" not in [button.key for button in app.run().button]
    app.run()
    second, step = training_of(app).run, training_of(app).run.snapshots[-1]
    with in_session(app):  # a pin that belongs to neither run
        pinned.pin_address({"checkpoint": ["dates"], "source": ["3 May"], "similarity": ["dot"]})
    click(app, "compare")
    values = app.session_state["url"].values
    assert not values["pin.source"]
    assert not values["pin.similarity"]
    assert (values["checkpoint"], values["growth-step"]) == (second.name, step)
    known = declared_parameters()
    address = {n: str(value) for n, value in values.items() if value != known[n].default}
    compared = page_at("compare", **address | {"growth": "true", "pin.growth": "true"})
    header, arrays = picture(compared, "difference")
    ours, theirs = (
        models.load(run.folder, device="cpu", snapshot=at)
        .run(values["source"], values["target"])
        .attention[SITE]
        .weights(0)
        .numpy()
        for run, at in ((second, step), (first, min(2, step)))
    )
    assert header["site"] == SITE
    np.testing.assert_allclose(arrays["difference"], ours - theirs, atol=1e-6)
    training_of(app).reset()
    assert training_of(app).run is None
    assert training_of(app).before is None


def test_without_trainers_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pool.TRAINERS_VARIABLE, "0")
    app = app_at("train")
    assert text.OFF in [one.value for one in app.markdown]
    assert not [button for button in app.button if (button.key or "").startswith("train")]


def test_a_live_picture_has_the_step_of_its_weights() -> None:
    """The run is further on by the time that a picture is drawn."""
    site = SimpleNamespace(name="cross", n_heads=1, n_query=2, n_key=2)
    weights = np.full((1, 2, 2), 0.5, np.float32)
    run = SimpleNamespace(
        is_active=True, state=RUNNING, snapshots=[0, 8], step=25, latest=(20, "cross", weights)
    )
    stored = SimpleNamespace(weights=lambda step, name: (step, name))
    now = SimpleNamespace(run=run, pictures=stored)
    assert watching._moment(now, site) == watching.Moment(20, weights)
    run.latest = (20, "another", weights)
    assert watching._moment(now, site) == watching.Moment(8, (8, "cross"))
