"""Every page with a GPT that classifies, and the page Task with runs that differ in λ."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from app_parts import picture, prose
from small import random_gpt
from small_runs import edited
from test_pages_of_bert import open_page

import models
from models.analysis.checks import Check
from models.checkpoint import save_checkpoint
from models.runs.scope import Scope
from models.tokenizers.base import Tokenizer
from models.trace.edits import HeadOff, HeadScale
from viz_app import checkpoints
from viz_app.controls import other_models
from viz_app.controls.other_models import models_with_view
from viz_app.drawing.payload import unpack
from viz_app.session import reference_models
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import Focus
from viz_app.session.reference_models import alike_but_for_lambda
from viz_app.views.task.classes import LambdaRun, _score, check_probabilities, class_probabilities
from viz_app.views.task.reading import TaskChoices

TEXT = "a fine day"
PAGES = ("attention", "task", "inside", "layer", "positions", "masks", "decoding", "from-rnn")
FACTORS = {"one": 1, "none": 0, "half": 0.5}


@pytest.fixture(scope="module")
def scopes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scope]:
    """Runs of three λ, and one of another seed."""
    found, tokenizer = {}, Tokenizer.characters("abcdefghijklmnopqrstuvwxyz ").for_classes()
    start = {"name": "gpt", "weights": "0" * 64}
    for seed, (name, factor) in enumerate({**FACTORS, "foreign": 0.25}.items(), 2):
        folder = tmp_path_factory.mktemp("models") / name
        model = random_gpt(
            seed, vocab_size=tokenizer.vocab_size, head="classes", classes="bad,good,so so"
        )
        record = {
            "step": 0,
            "task": "classify",
            "recipe": {"seed": seed if name == "foreign" else 1},
            "start": start,
            "data": {"file": "own.tsv", "fold": 0, "lm_weight": factor},
            "examples": [TEXT],
            "scores": {
                "held-out accuracy": 60.0 + seed,
                "text perplexity": 1234.5 + seed,
                "cases": 7,
            },
        }
        save_checkpoint(folder, model, tokenizer, record)
        found[name] = models.load(folder, device="cpu")
    return found


@pytest.fixture(autouse=True)
def offered(scopes: dict[str, Scope], monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [str(scope.path) for scope in scopes.values()]
    # what is found among these few models is not remembered
    monkeypatch.setattr(other_models, "models_with_view", models_with_view.__wrapped__)
    monkeypatch.setattr(checkpoints, "offered", lambda: dict(zip(paths, paths, strict=True)))


def shown(scope: Scope, text: str = TEXT) -> tuple[dict[str, bytes], list[Check]]:
    trace = scope.run(text)
    return class_probabilities(
        CurrentRun(scope, trace), trace.outputs["classes"], TaskChoices(None, Focus())
    )


def test_runs_that_differ_in_lambda_alone_are_side_by_side(scopes: dict[str, Scope]) -> None:
    """They are sorted by λ, each with its own model's probabilities."""
    drawn, checks = shown(scopes["half"])
    assert list(drawn) == ["classes", "pair"]
    header, arrays = unpack(drawn["classes"])
    assert [(run["whose"], run["title"], run["chosen"]) for run in header["runs"]] == [
        ("none", "λ = 0", False), ("half", "λ = 0.5", True), ("one", "λ = 1", False),
    ]  # fmt: skip
    p = [
        torch.softmax(scopes[run["whose"]].run(TEXT).outputs["classes"].logits.double(), 0)
        for run in header["runs"]
    ]
    np.testing.assert_allclose(arrays["p"], torch.cat(p), atol=1e-6)
    for run, one in zip(header["runs"], p, strict=True):
        assert [label for _, (label, _, _), _ in run["rows"]] == ["bad", "good", "so so"]
        assert [mark for *_, mark in run["rows"]] == [
            "most probable" * (i == int(one.argmax())) for i in range(3)
        ]
        accuracy, perplexity, _ = scopes[run["whose"]].training["scores"].values()
        assert (
            run["score"]
            == f"Held-out accuracy {accuracy:g} % over 7 cases; perplexity of their text {perplexity:,.0f}."
        )
        assert run["name"] == str(scopes[run["whose"]].path)
        fingerprint = scopes[run["whose"]].fingerprint[:12]
        assert f"{run['title']}: {run['whose']}, fingerprint {fingerprint}" in header["about"]
    assert [check.name for check in checks if not check.passed] == []
    own = unpack(drawn["pair"])[1]
    np.testing.assert_array_equal(own["p"], arrays["p"][3:6])
    assert any(
        np.allclose(own["weights"], row) for layer in (0, 1) for row in _rows(scopes["half"], layer)
    )  # of [extract]


def test_each_lambda_is_shown_under_the_edits_of_the_run(scopes: dict[str, Scope]) -> None:
    edits = (HeadOff("decoder.layers.0.self_attn"), HeadScale("decoder.layers.1.self_attn", factor=-2.0))  # fmt: skip
    run = edited(CurrentRun(scopes["half"], scopes["half"].run(TEXT)), edits)
    drawn, _ = class_probabilities(run, run.trace.outputs["classes"], TaskChoices(None, Focus()))
    header, arrays = unpack(drawn["classes"])
    for one, p in zip(header["runs"], arrays["p"].reshape(3, -1), strict=True):
        scope = scopes[one["whose"]]
        changed = scope.run(TEXT, edits=edits).outputs["classes"].logits.double().softmax(0)
        np.testing.assert_allclose(p, changed, atol=1e-6)
        plain = scope.run(TEXT).outputs["classes"].logits.double().softmax(0)
        assert not np.allclose(p, plain, atol=1e-4)


def _rows(scope: Scope, layer: int) -> list[np.ndarray]:
    site = scope.run(TEXT).attention[f"decoder.layers.{layer}.self_attn"]
    return [site.weights(head)[-1].numpy() for head in range(site.n_heads)]


def test_a_run_without_others_is_shown_alone(
    scopes: dict[str, Scope], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(shown(scopes["foreign"])[0]) == ["pair"]
    monkeypatch.setattr(checkpoints, "offered", dict)  # opened from a folder that is not offered
    assert list(shown(scopes["half"])[0]) == ["pair"]


def test_a_wrong_probability_fails_its_check(scopes: dict[str, Scope]) -> None:
    output = scopes["half"].run(TEXT).outputs["classes"]
    right = LambdaRun("half", scopes["half"], 0.5, output)
    assert check_probabilities([right]).passed
    wrong = replace(output)
    wrong.__dict__["probabilities"] = output.probabilities.roll(1)
    assert not check_probabilities([right, replace(right, output=wrong)]).passed


def test_runs_are_comparable_only_with_the_same_recipe_start_and_data(
    scopes: dict[str, Scope],
) -> None:
    assert list(alike_but_for_lambda(scopes["one"])) == [
        str(scopes[name].path) for name in ("none", "half", "one")
    ]
    training = scopes["one"].training
    for changed in (
        {"recipe": {}},
        {"start": {}},
        {"task": "mlm"},
        {"data": {**training["data"], "fold": 1}},
    ):
        assert reference_models._but_for_lambda(
            training | changed
        ) != reference_models._but_for_lambda(training)
    for without in ({}, {"data": "x"}, {"data": {"lm_weight": "much"}}):
        assert reference_models._but_for_lambda(without) is None


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("name", PAGES)
def test_every_page_opens_and_every_check_on_it_passes(scopes: dict[str, Scope], name: str) -> None:
    app = open_page(name, scopes["half"].path, text=TEXT)
    assert not app.exception
    assert "✗" not in prose(app)
    if name == "layer":  # of [extract], which the classes are read from
        header, _ = picture(app, "layer")
        assert header["position"] == len(header["tokens"]) - 1
        assert header["answer"][0] in ("bad", "good", "so so")
    if name == "decoding":
        assert "closed by a special token" in prose(app)


def test_a_run_without_a_score_says_so() -> None:
    assert _score({}) == "No score was measured."
    assert (
        _score({"held-out accuracy": 61.5, "cases": 1000})
        == "Held-out accuracy 61.5 % over 1,000 cases."
    )


@pytest.mark.parametrize(
    ("output", "part", "other"), [("", "pair", "answers"), ("next token", "answers", "pair")]
)
def test_one_of_two_outputs_is_shown_at_a_time(
    scopes: dict[str, Scope], output: str, part: str, other: str
) -> None:
    chosen = {"task-output": output} if output else {}
    app = open_page("task", scopes["half"].path, text=TEXT, **chosen)
    assert picture(app, part)
    keys = [element.proto.id for element in app.get("bidi_component")]
    assert not any(key.endswith(f"-{other}") for key in keys)
    says = "a logit for each class" if part == "pair" else "**Surprisal**"
    assert says in prose(app).replace("\n", " ")
