"""The menu of models: what it says of each, and in which order."""

import itertools
from pathlib import Path

import pytest

import models
from models.architectures import family_of
from models.architectures.base import Family
from models.checkpoint import CheckpointError, Description, describe
from models.layers.similarity import SIMILARITIES
from models.opening import shipped_folder
from viz_app import checkpoints
from viz_app.session import cache
from viz_app.sidebar import menu

FOUND = {
    "b-gpt": Description(
        Family("GPT", 2018),
        {"task": "language", "scores": {"held-out perplexity": 5.25, "bits per byte": 2}},
    ),
    "z-rnn": Description(
        Family("RNN", 2014),
        {"task": "translation", "scores": {"held-out BLEU": 21.444, "cases": 3}},
    ),
    "a-transformer": Description(Family("Transformer", 2017), {"task": "translation"}),
    "same-year": Description(Family("Also of 2017", 2017), {"task": "translation", "scores": {}}),
    "own": Description(
        Family("RNN", 2014), {"task": "chess", "scores": {"held-out exact match": 12.0}}
    ),
    "no-task": Description(Family("Transformer", 2017), {}),
    "date": Description(
        Family("BERT", 2019), {"task": "dates", "scores": {"held-out exact match": 99.5}}
    ),
}


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    def description(name: str) -> Description:
        if name == "broken":
            raise CheckpointError("broken: no config.json")
        return FOUND[name]

    monkeypatch.setattr(checkpoints, "available", lambda: ["broken", *FOUND])
    monkeypatch.setattr(checkpoints, "folder", lambda name: name)
    monkeypatch.setattr(cache, "description", description)
    return menu.options()


def test_models_stand_by_task_and_within_it_in_the_order_of_history(lines: dict[str, str]) -> None:
    assert list(lines) == [
        "z-rnn",
        "same-year",
        "a-transformer",
        "date",
        "b-gpt",
        "no-task",
        "own",
        "broken",
    ]


def test_a_line_says_what_a_model_is_for_what_it_is_and_how_good_it_is(
    lines: dict[str, str],
) -> None:
    assert lines["z-rnn"] == "z-rnn — translation; RNN; BLEU 21.44"
    assert lines["date"] == "date — dates; BERT; exact match 99.5 %"
    assert lines["b-gpt"] == "b-gpt — running text; GPT; perplexity 5.25"
    assert (
        lines["a-transformer"] == "a-transformer — translation; Transformer"
    )  # nothing was measured of it
    assert lines["own"] == "own — chess; RNN; exact match 12 %"
    assert lines["no-task"] == "no-task — Transformer"
    assert lines["broken"] == "broken — cannot be read"


def test_what_a_checkpoint_says_of_itself_is_what_it_is_when_opened() -> None:
    for name in ("dates-rnn", "gpt-char"):
        said, opened = describe(shipped_folder() / name), models.load(name, device="cpu")
        assert said.family == family_of(opened.config)
        assert {key: said.training[key] for key in ("task", "scores")} == {
            key: opened.training[key] for key in ("task", "scores")
        }


def test_every_shipped_model_has_a_line_of_its_own_kind_and_history_has_its_order() -> None:
    found = {name: describe(shipped_folder() / name).family for name in models.shipped()}
    years = {name: family.year for name, family in found.items()}
    history = ("dates-rnn", "dates-bahdanau", "dates-attn", "dates", "gpt")
    assert all(years[one] < years[other] for one, other in itertools.pairwise(history))
    assert all(family.year < 9999 and family.name for family in found.values())
    assert (
        found["dates-stacked-residual"].name
        == "attention alone, after 3 self-attention layers, 4 heads, Add & Norm"
    )
    assert found["dates-self-attn"].name == "attention alone, after 1 self-attention layer"
    assert found["dates-attn"].name == "attention alone"
    for name in ("cosine", "general", "additive", "dot"):
        assert name in SIMILARITIES
        assert found[f"dates-{name}"].name.endswith(f", {name} scores")


def test_a_folder_that_is_no_checkpoint_says_nothing_of_itself(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="training.json"):
        describe(tmp_path)
    (tmp_path / "training.json").write_text('{"task": 3}')
    with pytest.raises(CheckpointError, match="task must be"):
        describe(tmp_path)
    (tmp_path / "training.json").write_text("{}")
    (tmp_path / "config.json").write_text('{"architecture": "perceptron"}')
    with pytest.raises(CheckpointError, match="'perceptron' is not one of"):
        describe(tmp_path)
