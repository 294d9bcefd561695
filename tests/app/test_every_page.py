"""Every page opens with every shipped checkpoint, one of each architecture among them; its text and pictures are that model's,
and every check on it has been made and passed."""

import json
import re
from functools import cache

import numpy as np
import pytest
from app_parts import component, page_at, picker, picture, prose, said
from sentences import too_long
from streamlit.testing.v1 import AppTest

import models
from models.architectures.attention_only import AttentionOnly
from models.architectures.seq2seq import Seq2Seq
from models.checkpoint import describe_checkpoint
from models.opening import shipped_folder
from models.tokenizers.base import END
from viz_app.input_bar.examples import example_choices, readable_examples
from viz_app.navigation import PAGES
from viz_app.views.from_rnn.page import OPENS_ON

QUESTIONS = {
    "attention": "Attention: which token attends to which?", "inside": "Inside a head: how is one attention weight computed?",
    "positions": "Positions: how does the model know word order?",
    "masks": "Masks: which tokens may attend to which, and what if we change that?",
    "layer": "A layer, step by step: what does each part add?",
    "task": "Task: what is this model trained to do, and what does it predict?",
    "decoding": "Decoding: how is text generated token by token?", "interventions": "Interventions: what happens if…?",
    "compare": "Compare: which heads differ, and where?",
    "from-rnn": "From RNN to attention: what changed?",
}  # fmt: skip
CHECKS = {  # the number of checks on each page
    "Transformer": {
        "attention": 3,
        "task": 3,
        "inside": 5,
        "layer": 3,
        "positions": 2,
        "masks": 5,
        "interventions": 5,
        "compare": 6,
        "decoding": 5,
        "from-rnn": 1,
    },
    "attention only": {
        "attention": 3,
        "task": 3,
        "inside": 5,
        "positions": 2,
        "masks": 5,
        "interventions": 5,
        "compare": 6,
        "decoding": 5,
        "from-rnn": 1,
    },
    "alignment": {
        "attention": 3,
        "task": 3,
        "inside": 5,
        "layer": 0,
        "positions": 3,
        "masks": 5,
        "interventions": 5,
        "compare": 6,
        "decoding": 6,
        "from-rnn": 1,
    },
    "fixed vector": {
        "attention": 1,
        "task": 2,
        "inside": 1,
        "layer": 0,
        "positions": 3,
        "masks": 0,
        "interventions": 3,
        "compare": 0,
        "decoding": 4,
        "from-rnn": 1,
    },
}
# from their records; test_the_purpose_of_each_is_known compares them with the models
TASKS = {
    name: describe_checkpoint(shipped_folder() / name).training["task"] for name in models.shipped()
}
# trained without a look-ahead mask, so that it generates nothing by itself
UNMASKED = "reverse-unmasked"
LANGUAGE_MODELS = [name for name, task in TASKS.items() if task == "language"]
WRITERS = [
    name for name, task in TASKS.items() if task in ("dates", "translation", "reverse")
] + LANGUAGE_MODELS
PICTURE = {
    "attention": "head", "inside": "walk", "positions": "positions-shuffle", "masks": "mask_painter", "decoding": "stepper",
    "from-rnn": "from-rnn-versions", "task": "answers", "layer": "layer", "interventions": "outcome", "compare": "difference",
}  # fmt: skip


# page → a section that a language model lacks, and the one that it opens on instead
LACKS = {"positions": ("Shuffle test", "Curves"), "from-rnn": ("Three models", "Sentence length")}


def second_text(app: AppTest) -> str:
    """Return the second text of the page Masks."""
    return app.text_area(key="masks-second").value


def long_sentences(app: AppTest) -> list[str]:
    """Return the page's sentences of more than twenty words."""
    texts = [part.value for part in (*app.markdown, *app.caption)]
    return [one for text in texts for one in too_long(re.sub(r"<[^>]*>", "", text))]


def unmarked(app: AppTest) -> str:
    """Return the page's text, without the marks of words that are explained on hover."""
    return re.sub(r"</?abbr[^>]*>", "", prose(app))


scope_of = cache(lambda checkpoint: models.load(checkpoint, device="cpu"))


@cache
def run(checkpoint: str) -> tuple[str, models.Trace]:
    """Return the family of a model, and its own run of the text that it opens with."""
    scope = scope_of(checkpoint)
    family = "attention only" if isinstance(scope.model, AttentionOnly) else "Transformer"
    if isinstance(scope.model, Seq2Seq):
        family = "fixed vector" if scope.config.attention == "none" else "alignment"
    return family, scope.run(example_choices(scope)[0])


def layer_checks(checkpoint: str) -> int:
    """Return the number of checks: three with a residual stream; without, one for the last layer, and one more if there are several."""
    config = scope_of(checkpoint).config
    return 3 if config.residual else 1 + (config.n_self_layers > 0)


def test_the_purpose_of_each_is_known():
    for name in TASKS:
        model = scope_of(name).model
        assert (model.can_write, model.can_write and model.continues) == (
            name in WRITERS,
            name in LANGUAGE_MODELS,
        )


@pytest.mark.slow(except_one_in=5)
@pytest.mark.parametrize("view", PICTURE)
@pytest.mark.parametrize(
    "checkpoint", [n for n in WRITERS if n not in (*LANGUAGE_MODELS, UNMASKED)]
)
def test_it_shows_this_model(checkpoint, view):
    app = page_at(view, checkpoint=checkpoint)
    assert long_sentences(app) == []
    assert picker(app)["value"] == checkpoint
    family, trace = run(checkpoint)
    if view == "from-rnn" and (own := OPENS_ON.get(scope_of(checkpoint).task)):
        trace = scope_of(checkpoint).run(own)
    assert f"<h1>{QUESTIONS[view]}</h1>" in unmarked(app)
    assert "eng-fra" in checkpoint or "eng-fra" not in prose(
        app
    )  # no model of another task is recommended
    verdicts = prose(app).count("✓"), prose(app).count("✗")
    expected = (
        layer_checks(checkpoint)
        if (family, view) == ("attention only", "layer")
        else CHECKS[family][view]
    )
    assert verdicts == (expected, 0)
    if view not in ("from-rnn", "interventions", "compare"):  # which mention it themselves
        written = dict(said(app, "written")["rows"])
        assert (written["source"], written["output"], written["stale"]) == (
            trace.streams["source"].text,
            trace.output,
            "",
        )
    if family == "fixed vector" and view in (
        "attention",
        "inside",
        "masks",
        "interventions",
        "compare",
    ):
        if view in ("attention", "inside"):  # the states, since there is no attention
            np.testing.assert_array_equal(
                picture(app, "states")[1]["states"], trace.activations["encoder.states"].value[0]
            )
        return
    if view == "layer" and family in ("alignment", "fixed vector"):
        assert (
            f"Open **{'eng-fra' if 'eng-fra' in checkpoint else 'dates'}**, a model of the same task"
            in prose(app)
        )
        return
    if view == "interventions":  # test_interventions.py holds its numbers
        assert said(app, "outcome")["answers"][0]["words"] == trace.output.split(" ")
        return
    if view == "compare":  # test_compare_page.py holds its numbers
        header, arrays = picture(app, "difference")
        site = trace.attention[header["site"]]
        np.testing.assert_allclose(arrays["first"], site.weights(header["head"]), atol=1e-5)
        assert header["answers"][0]["words"] == trace.output.split(" ")
        return
    header, arrays = picture(app, PICTURE[view])
    n, m = len(trace.streams["source"].ids), len(trace.streams["target"].ids)
    if view in ("attention", "inside"):
        row = header["query"] if view == "inside" else slice(None)
        weights = trace.attention[header["site"]].weights(header["head"])[row].numpy()
        shown = weights[header["indices"]] if view == "inside" else weights
        np.testing.assert_allclose(arrays["weights"], shown, atol=1e-6)
    if view == "task":
        expected = trace.next_token.logits.double().softmax(-1)[
            range(m), [*trace.streams["target"].ids[1:], END]
        ]
        np.testing.assert_allclose(arrays["probability"], expected, rtol=1e-4, atol=1e-7)
        assert (
            len(header["reading"]["keys"])
            == len(arrays["weights"])
            == (0 if family == "fixed vector" else n)
        )
    if view == "layer":
        assert header["stops"][-1]["answer"] == pytest.approx(
            float(trace.next_token.log_probs[1].max().exp()), rel=1e-4
        )
    if view == "masks":
        assert header["effect"]["outputs"] == [trace.output] * 2
        assert not arrays["difference"].any()
    if view == "decoding":
        assert header["serial"]["taken"][: m - 1] == list(trace.streams["target"].ids[1:])
        assert header["diverges"] == -1
    if view == "positions":
        assert sorted(header["order"]) == list(range(n)) != header["order"]
        assert len(header["tokens"]) == n
    if view == "from-rnn":
        written = {
            card["whose"].split(",")[0]: card["gap"].join(word for word, _ in card["words"])
            for card in header["cards"]
        }
        assert len(written) == 3
        assert written == {
            name: scope_of(name).run(trace.streams["source"].text).output for name in written
        }
        assert checkpoint in written or family == "attention only"
        assert arrays["change"].shape == (n - 1,)  # every token except the end token


@pytest.mark.slow(except_one_in=5)
@pytest.mark.parametrize("view", PICTURE)
@pytest.mark.parametrize("checkpoint", [name for name in models.shipped() if name not in WRITERS])
def test_it_shows_this_model_that_answers(checkpoint, view):
    app = page_at(view, checkpoint=checkpoint)
    assert long_sentences(app) == []
    scope = scope_of(checkpoint)
    texts = readable_examples(scope)[0]
    assert [
        box.value for box in app.text_area if box.key in ("text", "question", "context")
    ] == list(texts)
    assert f"<h1>{QUESTIONS[view]}</h1>" in unmarked(app)
    assert "✗" not in prose(app)
    if view in ("attention", "inside"):
        header, arrays = picture(app, PICTURE[view])
        trace = scope.run(*texts)
        row = header["query"] if view == "inside" else slice(None)
        weights = trace.attention[header["site"]].weights(header["head"])[row].numpy()
        np.testing.assert_allclose(
            arrays["weights"],
            weights[header["indices"]] if view == "inside" else weights,
            atol=1e-6,
        )


@pytest.mark.parametrize("view", PICTURE)
def test_it_shows_the_model_without_a_look_ahead_mask(view):
    app = page_at(view, checkpoint=UNMASKED, source="ffjdf", target="fdjff")
    assert long_sentences(app) == []
    assert f"<h1>{QUESTIONS[view]}</h1>" in unmarked(app)
    assert "✗" not in prose(app)
    assert "look-ahead mask gives" not in prose(app)
    if view == "masks":
        assert not any("causal" in label for label in own_masks(app))
    if view == "decoding":
        assert "without a look-ahead mask, a position may attend" in unmarked(app)


def own_masks(app: AppTest) -> list[str]:
    """Return the preset masks that are labelled as the model's own."""
    return [one for box in app.selectbox for one in box.options if "this model's" in one]


def test_every_page_of_a_run_is_among_them() -> None:
    # which show no run: test_models_page.py, test_lesson_pages.py, test_train_page.py
    assert {*PICTURE, "models", "lessons", "train"} == set(PAGES)


@pytest.mark.slow(except_one_in=5)
@pytest.mark.parametrize("view", PICTURE)
@pytest.mark.parametrize("checkpoint", LANGUAGE_MODELS)
def test_it_shows_this_language_model(checkpoint, view):
    app = page_at(view, checkpoint=checkpoint)
    assert long_sentences(app) == []
    scope = scope_of(checkpoint)
    text = example_choices(scope)[0]
    trace = scope.run(text)
    assert [box.value for box in app.text_area if box.key in ("text", "continuation")] == [text, ""]
    assert [box.label for box in app.text_area if box.key in ("text", "continuation")] == [
        "Text (type here)",
        "What follows",
    ]
    assert f"<h1>{QUESTIONS[view]}</h1>" in unmarked(app)
    checks = {
        "attention": 3,
        "task": 3,
        "inside": 5,
        "layer": 3,
        "positions": 2,
        "masks": 5,
        "interventions": 5,
        "compare": 6,
        "decoding": 5,
        "from-rnn": 0,
    }[view]
    assert (prose(app).count("✓"), prose(app).count("✗")) == (checks, 0)
    if view in ("positions", "from-rnn"):  # on the first section that it has
        reasons = json.loads(component(app, "section-reasons").json)["reasons"]
        lacks, has = LACKS[view]
        assert lacks in reasons
        assert has not in reasons
        assert app.segmented_control(key=f"{view}-section").value == has
        return
    if view in ("interventions", "compare"):
        return
    written = dict(said(app, "written")["rows"])
    best = trace.next_token.logits[-1].double().softmax(-1).max()
    assert (written["source"], written["label-out"]) == (
        text,
        f"most likely next, {100 * float(best):.0f} %",
    )
    header, arrays = picture(app, PICTURE[view])
    n = len(trace.streams["text"].ids)
    if view in ("attention", "inside"):
        row = header["query"] if view == "inside" else slice(None)
        weights = trace.attention[header["site"]].weights(header["head"])[row].numpy()
        shown = weights[header["indices"]] if view == "inside" else weights
        np.testing.assert_allclose(arrays["weights"], shown, atol=1e-6)
    if view == "task":
        expected = trace.next_token.logits.double().softmax(-1)[
            range(n - 1), list(trace.streams["text"].ids[1:])
        ]
        np.testing.assert_allclose(arrays["probability"], expected, rtol=1e-4, atol=1e-7)
    if view == "layer":
        assert header["stops"][-1]["answer"] == pytest.approx(float(best), rel=1e-4)
    if view == "masks":
        assert not arrays["difference"].any()
        longest = max(len(scope.input_ids(other)) for other in (text, second_text(app)))
        assert arrays["base"].shape == (longest, longest)  # both texts are in one batch
    if view == "decoding":
        taken = header["serial"]["taken"]
        assert taken == list(scope.write(text, max_new=len(taken)).ids)
