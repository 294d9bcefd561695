"""The trace of training: a snapshot's run, the loss curve, the animated picture, and the slider on the page."""

import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from app_parts import PATIENCE, address_of, prose, said
from PIL import Image
from small import Reversal, reversal_trainer
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

import models
import viz_app
from models.architectures.attention_only import AttentionOnlyConfig
from models.opening import shipped_folder
from models.tasks import open_task
from viz_app import words
from viz_app.drawing import loss_curve
from viz_app.drawing.colours import ramp
from viz_app.drawing.labels import Label
from viz_app.drawing.payload import unpack
from viz_app.drawing.scale import Scale
from viz_app.session.cache import changed_run
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.views.attention import files
from viz_app.views.attention.payloads import AttentionChoices

APP = Path(viz_app.__file__).with_name("app.py")


def frames(n: int, rows: int, columns: int) -> list[files.StrengthFrame]:
    rng = np.random.default_rng(0)
    return [
        files.StrengthFrame(3**i, rng.random((rows, columns), dtype=np.float32)) for i in range(n)
    ]


def test_every_cell_of_every_frame_of_the_gif_has_the_colour_of_its_weight() -> None:
    shown, blocked = frames(4, 3, 5), np.zeros((3, 5), np.uint8)
    gif = files.head_gif(shown, [Label("q")] * 3, [Label("k")] * 5, blocked, "a head", "1")
    picture = Image.open(io.BytesIO(gif))
    assert picture.n_frames == 4
    for i, frame in enumerate(shown):
        picture.seek(i)
        pixels = picture.convert("RGB")
        for (q, k), weight in np.ndenumerate(frame.strengths):
            x, y = (
                start + i * files._CELL + 12 for start, i in ((files._LEFT, k), (files._TOP, q))
            )
            came = pixels.getpixel((x, y))
            wanted = bytes.fromhex(ramp(float(weight))[1:])
            assert (
                max(abs(a - b) for a, b in zip(came, wanted, strict=True)) <= 12
            )  # a GIF has 256 colours


@pytest.mark.slow
def test_a_long_text_still_gives_a_picture_of_modest_size() -> None:
    label = [Label("x")] * 131
    gif = files.head_gif(
        frames(2, 131, 131), label, label, np.zeros((131, 131), np.uint8), "a head", "1"
    )
    assert max(Image.open(io.BytesIO(gif)).size) < 1500


def test_the_curve_holds_the_recorded_losses_and_says_how_it_is_spaced() -> None:
    curve = [
        {"step": 20, "loss": 4.25},
        {"step": 40, "loss": 1.5, "validation loss": 1.75},
        {"step": 60, "loss": 0.0},
    ]
    chart = loss_curve.loss_curve(curve, 40, "#000000", "#888888").to_dict()
    assert (
        "title" not in chart
    )  # a title here would be wider than the picture, which would cut it off
    layers = chart["layer"]
    values = [layer["data"]["values"] for layer in layers]
    assert [(row["step"], row["at"], row["loss"]) for row in values[0]] == [
        (20, 4.25, "4.25"), (40, 1.5, "1.5"), (60, 5e-5, "below 0.00005"),
    ]  # fmt: skip
    assert [(row["step"], row["at"], row["of"]) for row in values[1]] == [(40, 1.75, "validation")]
    assert values[2] == [{"step": 40}]
    for layer in layers[:2]:
        x, y = layer["encoding"]["x"], layer["encoding"]["y"]
        assert (y["field"], y["scale"]["type"], y["title"]) == (
            "at",
            "log",
            "loss (nats)",
        )
        # vega's symlog of constant c is log(1 + |x/c|), and not a log scale
        assert (x["scale"]["type"], x["scale"]["constant"]) == ("symlog", 10)
        assert x["title"] == "training step"
    assert "logarithmic scale, the steps spaced as log(1 + step/10)" in loss_curve.LOSSES_CAPTION
    assert "per token" not in loss_curve.LOSSES_CAPTION  # bert-where's is that of an answer's ends


def record(smoothing: float | None, averaged: int = 0) -> dict:
    return {
        "step": 90,
        "averaged_steps": averaged,
        "recipe": {} if smoothing is None else {"label_smoothing": smoothing},
    }


@pytest.mark.parametrize(
    ("smoothing", "dropout", "says", "never"),
    [
        (0.1, 0.3, "dropout 0.3 and label smoothing 0.1.", "alike"), (0.1, 0.0, "label smoothing 0.1.", "alike"),
        (0.0, 0.3, "dropout 0.3 and label smoothing 0.", "alike"), (0.0, 0.0, "measured alike", "without both"),
        (None, 0.0, "where it had them; the dots are without", "alike"),
    ],
)  # fmt: skip
def test_beside_the_curve_is_the_difference_between_the_two_losses(
    smoothing: float | None, dropout: float, says: str, never: str
) -> None:
    said = loss_curve.two_losses(record(smoothing), dropout)
    assert says in said
    assert never not in said
    assert "averages" not in said
    assert "From step 71 on, the dots and the last weights are averages" in loss_curve.two_losses(
        record(smoothing, 20), dropout
    )


def test_masked_tokens_are_not_hidden_alike_in_training_and_validation() -> None:
    said = loss_curve.two_losses(record(0.0) | {"task": "mlm"}, 0.0)
    assert "20 % of the tokens to predict are not masked" in said
    assert "alike" not in said


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ({"task": "mlm"}, "next-sentence guesses"), ({"task": "copy"}, ""),
        ({"task": "classify", "data": {"lm_weight": 0.5}}, "Both add 0.5 times the mean loss"),
        ({"task": "classify", "data": {"lm_weight": "x"}}, ""), ({"task": "classify"}, ""),
    ],
)  # fmt: skip
def test_a_run_with_two_losses_says_that_they_are_added(entries: dict, says: str) -> None:
    said = loss_curve.two_losses(record(0.0) | entries, 0.0)
    assert says in said if says else "Both add" not in said


def test_averaging_begins_at_the_step_the_caption_names(tmp_path: Path) -> None:
    trainer = reversal_trainer(tmp_path, steps=7, average_last=0.3, validate_every=7)
    begun = next(step.step for step in trainer.train() if trainer.averaged.n_averaged)
    assert f"From step {begun} on" in loss_curve.two_losses(trainer.record(), 0.0)


def test_the_last_snapshot_is_the_shipped_checkpoint_and_the_first_has_learned_nothing() -> None:
    scope = models.load("dates")
    last = models.load("dates", snapshot=scope.snapshots[-1])
    assert all(
        (a == b).all()
        for a, b in zip(scope.model.parameters(), last.model.parameters(), strict=True)
    )
    first = models.load("dates", snapshot=0)
    assert first.training["step"] == 0
    assert first.run("3 May 2019").output != "2019-05-03"
    assert scope.run("3 May 2019").output == "2019-05-03"


@pytest.fixture
def page() -> AppTest:
    app = AppTest.from_file(APP, default_timeout=PATIENCE)
    app.query_params["checkpoint"] = "dates"
    app.query_params["source"] = "3 May 2019"
    app.query_params["growth"] = "true"
    return app


def head_payload(app: AppTest) -> tuple[dict, np.ndarray]:
    """Return the header and the weights of the head component."""
    content = next(
        c.proto.bytes for c in app.get("bidi_component") if b'"queryAxis"' in c.proto.bytes
    )
    header, arrays = unpack(content)
    return header, arrays["weights"]


@pytest.mark.slow
def test_the_slider_shows_the_same_text_under_the_weights_of_that_step(page: AppTest) -> None:
    page.run()
    assert not page.exception
    page.select_slider(key="growth-step").set_value(125).run()
    assert not page.exception
    header, weights = head_payload(page)
    now = models.load("dates").run("3 May 2019")
    then = models.load("dates", snapshot=125).run_batch([("3 May 2019", now.streams["target"])])[0]
    np.testing.assert_array_equal(
        weights, then.attention[header["site"]].weights(header["head"]).numpy()
    )
    assert not np.allclose(weights, now.attention[header["site"]].weights(header["head"]).numpy())
    scope = models.load("dates")  # the curve is that of the whole training
    whole = loss_curve.two_losses(scope.training, scope.config.dropout)
    assert whole in [caption.value for caption in page.caption]
    headline = dict(said(page, "written")["rows"])
    assert headline["output"] == then.output != now.output
    assert headline["label-out"] == "the weights after 125 steps: predicted after each given token"


def test_a_model_without_dropout_shows_its_training_steps(page: AppTest, tmp_path: Path) -> None:
    config = AttentionOnlyConfig(Reversal().tokenizer.vocab_size, d_model=17, n_ctx=13)
    trainer = reversal_trainer(tmp_path, config=config, steps=2, snapshots=True)
    assert len(list(trainer.train())) == 2
    trainer.save_checkpoint()
    page.query_params |= {"checkpoint": str(tmp_path), "source": "abc", "growth-step": "1"}
    page.run()
    assert not page.exception
    assert any("neither dropout nor label smoothing" in caption.value for caption in page.caption)


@pytest.mark.slow
def test_the_animation_is_drawn_as_the_page_draws_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list = []
    monkeypatch.setattr(
        files,
        "head_gif",
        lambda frames, queries, keys, blocked, title, unit: made.append((frames, unit)),
    )
    scope, name = models.load("dates"), "decoder.layers.1.cross_attn"
    run = CurrentRun(scope, scope.run("3 May 2019"))
    files.animation(run, name, 2, Scale("root", hides_sinks=True), lambda trace: trace)
    (frames, unit), last = made[0], run.trace.attention[name].weights(2).numpy()
    assert [frame.step for frame in frames] == list(scope.snapshots)
    np.testing.assert_allclose(frames[-1].strengths[:, :-1], np.sqrt(last[:, :-1]), atol=1e-4)
    assert not frames[-1].strengths[:, -1].any()
    assert unit.endswith("middle is 0.25; [end] left out")


def test_each_frame_of_the_animation_is_under_the_changes_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[files.StrengthFrame] = []
    monkeypatch.setattr(files, "head_gif", lambda frames, *rest: drawn.extend(frames))
    scope, name = models.load("dates"), "decoder.layers.1.cross_attn"
    run = CurrentRun(scope, scope.run("3 May 2019"))
    changed = replace(run.spec.model, similarity="dot", positions=False)
    shown = changed_run(run, replace(run.spec, model=changed))
    files.animation(shown, name, 2, Scale(), lambda trace: trace)
    for frame in drawn[::6]:
        snapshot = models.load("dates", snapshot=frame.step).with_similarity("dot")
        trace = snapshot.without_positions().run("3 May 2019", run.trace.output)
        weights = trace.attention[name].weights(2).numpy()
        np.testing.assert_allclose(frame.strengths, weights, atol=1e-5)


def test_the_file_of_the_animation_is_named_for_no_step() -> None:
    scope = models.load("dates", snapshot=250)
    run = CurrentRun(scope, scope.run("3 May 2019"))
    focus = Focus("decoder.layers.1.cross_attn", 2)
    (file,) = files._training(run, AttentionChoices(focus))
    assert file.name == "dates.decoder.layer2.cross_attn.head3.training.gif"
    assert file.about(run)["steps"].endswith(", 4000")
    assert "training step" not in file.about(run)


def line(app: AppTest) -> str:
    """Return the text under the slider."""
    return said(app, "note growth")["rows"][0][1]


@pytest.mark.slow
def test_under_the_slider_is_the_score_of_that_steps_weights_only(
    page: AppTest,
) -> None:
    kept = json.loads((shipped_folder() / "dates" / "training.json").read_text())["snapshot_scores"]
    assert [int(step) for step in kept] == models.load("dates").snapshots
    page.run()
    for step, wanted in ((0, "0"), (125, "0.5"), (1000, "90.1"), (4000, "100")):
        page.select_slider(key="growth-step").set_value(step).run()
        assert not page.exception
        assert address_of(page)["growth-step"] == [str(step)]
        assert f"{kept[str(step)]['scores']['held-out exact match']:g}" == wanted
        score = f"held-out exact match {wanted} % over 2,000 cases"
        assert f"weights after {step:,} steps" in line(page)
        assert f"Score of these weights: {score}." in line(page)
        trained = said(page, "trained")["rows"][0][1]
        made = f"Trained for {step:,} steps on generated examples. " if step else ""
        assert trained == f"{made}{score[:1].upper()}{score[1:]}."
        assert prose(page).count("exact match") == 2
        assert any("measured alike" in caption.value for caption in page.caption)
        assert any("training (line), held-out (dots)" in caption.value for caption in page.caption)


@pytest.mark.slow
def test_the_recorded_score_of_a_snapshot_matches_its_answers() -> None:
    """It is counted without models.training.evaluation: some of the cases are decoded one by one."""
    cases = open_task("dates").held_out(48)
    for step, about in ((63, 0.0), (500, 60.65)):
        scope = models.load("dates", device="cpu", snapshot=step)
        right = sum(scope.write(case.source).text in case.references for case in cases)
        assert scope.training["scores"] == {"held-out exact match": about, "cases": 2000}
        assert (
            abs(100 * right / len(cases) - about) <= 3 * 100 * (0.25 / len(cases)) ** 0.5
        )  # three standard errors


def test_no_score_is_given_for_weights_that_were_not_measured(
    page: AppTest, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(shipped_folder() / "dates", folder)
    known = json.loads((folder / "training.json").read_text())
    del known["snapshot_scores"]["125"]
    (folder / "training.json").write_text(json.dumps(known))
    page.query_params["checkpoint"], page.query_params["growth-step"] = str(folder), "125"
    page.run()
    assert not page.exception
    assert "Score of these weights: not measured." in line(page)
    assert "exact match" not in prose(page)


@pytest.mark.parametrize("address", ["", "inside"])
@pytest.mark.parametrize("step", [None, 4000])
def test_no_score_is_given_under_another_similarity(
    page: AppTest, address: str, step: int | None
) -> None:
    if address:
        page._page_hash = calc_hash(address)
    if step is None or address:
        del page.query_params["growth"]
    page.query_params["similarity"] = "additive"
    page.run()
    assert not page.exception
    trained = said(page, "trained")["rows"][0][1]
    assert trained == (
        "Trained for 4,000 steps on generated examples. That was with the scaled dot similarity. No score was measured "
        "with additive, which is used here. The additive similarity's own parameters are untrained: W, U and v are drawn "
        "at random."
    )
    assert "exact match" not in prose(page)


def test_the_text_under_the_slider() -> None:
    assert words.at_step(2000, {"held-out exact match": 98.4, "cases": 2000}) == (
        "Shown: the weights after 2,000 steps, on the same text as the finished model. "
        "Score of these weights: held-out exact match 98.4 % over 2,000 cases."
    )
