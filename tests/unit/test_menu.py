"""The menu of models: the description, group and order of each."""

import itertools
import json
from pathlib import Path

import pytest
from small import random_gpt

import models
from models.architectures import family_of
from models.checkpoint import CheckpointError, describe_checkpoint, save_checkpoint
from models.layers.similarity import SIMILARITIES
from models.opening import shipped_folder
from models.tokenizers.base import Tokenizer
from viz_app import checkpoints
from viz_app.input_bar import menu


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of three checkpoints: one of a known task, one of an unknown one, one that cannot be read."""
    folder = tmp_path / "shelf"
    tokenizer = Tokenizer.characters("abcd")
    for name, record in {
        "novel": {"task": "language", "step": 3},
        "chess": {"task": "chess", "step": 3},
    }.items():
        model = random_gpt(vocab_size=tokenizer.vocab_size)
        save_checkpoint(folder / name, model, tokenizer, record)
    (folder / "broken").mkdir()
    (folder / "broken" / "config.json").write_text("{")
    monkeypatch.setenv(checkpoints.MODELS_VARIABLE, str(folder))
    return folder


def found() -> dict[str, dict[str, str]]:
    """Return title of a group → name of each model in it → its description."""
    return {
        group["title"]: {one["name"]: one["detail"] for one in group["options"]}
        for group in menu.groups()
    }


def test_shipped_models_are_grouped_by_family_in_the_order_of_history() -> None:
    groups = found()
    assert list(groups) == [
        "RNN, one fixed vector (Cho et al. 2014)",
        "RNN with alignment (Bahdanau et al. 2015)",
        "Attention alone",
        "Transformer (Vaswani et al. 2017)",
        "GPT (Radford et al. 2018, 2019)",
        "BERT (Devlin et al. 2019)",
        "XLNet (Yang et al. 2019)",
    ]
    assert sorted(itertools.chain(*groups.values())) == models.shipped()
    assert list(groups["Transformer (Vaswani et al. 2017)"])[:2] == ["eng-fra", "dates"]


def test_a_model_is_described_by_its_task_kind_and_size() -> None:
    said = {name: detail for group in found().values() for name, detail in group.items()}
    assert said["eng-fra"] == "translates English to French · Transformer · 4.3 M"
    assert (
        said["dates-cosine"] == "writes a date in ISO format · Transformer, cosine scores · 240 k"
    )
    assert (
        said["gpt-sentiment"] == "classifies text as negative or positive · GPT · λ = 0.5 · 1.2 M"
    )
    assert said["bert-where"] == "finds the answer to a question in a text · BERT · 174 k"


def test_folders_come_under_their_own_heading_after_the_shipped_models(shelf: Path) -> None:
    title, own = list(found().items())[-1]
    assert title == "Folder shelf"
    n = menu.size_text(sum(p.numel() for p in models.load(shelf / "novel").model.parameters()))
    assert own == {
        "shelf/chess": f"GPT · {n}",
        "shelf/novel": f"continues a text · GPT · {n}",
        "shelf/broken": "cannot be read",
    }


def test_the_own_module_comes_last_under_its_file_name(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(checkpoints.MODULE_VARIABLE, "/far/away/mine.py:make_scope")
    (own,) = menu.groups()[-1]["options"]
    assert menu.groups()[-1]["title"] == "Own module"
    assert (own["name"], own["label"]) == ("/far/away/mine.py:make_scope", "mine.py:make_scope")


def test_no_data_file_is_named_in_the_menu() -> None:
    written = json.dumps(menu.groups())
    records = [describe_checkpoint(shipped_folder() / name).training for name in models.shipped()]
    files = [record["data"].get("file", "") for record in records]
    names = {name for file in files for name in file.split(" + ") if name}
    assert len(names) > 5
    assert not [name for name in names if name in written]


@pytest.mark.parametrize(("n", "said"), [
    (7, "7"), (999, "999"), (1_000, "1.0 k"), (23_360, "23 k"), (240_192, "240 k"), (4_267_008, "4.3 M"), (1.24e9, "1.2 G"),
])  # fmt: skip
def test_a_size_has_two_or_three_digits(n: float, said: str) -> None:
    assert menu.size_text(int(n)) == said


def test_a_checkpoints_outline_matches_the_opened_model() -> None:
    for name in ("dates-rnn", "gpt-char"):
        said, opened = describe_checkpoint(shipped_folder() / name), models.load(name, device="cpu")
        assert said.family == family_of(opened.config)
        assert {key: said.training[key] for key in ("task", "scores")} == {
            key: opened.training[key] for key in ("task", "scores")
        }


def test_every_shipped_model_is_described_by_its_kind_in_the_order_of_history() -> None:
    found = {name: describe_checkpoint(shipped_folder() / name).family for name in models.shipped()}
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


def test_a_folder_that_is_no_checkpoint_has_no_outline(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="training.json"):
        describe_checkpoint(tmp_path)
    (tmp_path / "training.json").write_text('{"task": 3}')
    with pytest.raises(CheckpointError, match="task must be"):
        describe_checkpoint(tmp_path)
    (tmp_path / "training.json").write_text("{}")
    (tmp_path / "config.json").write_text('{"architecture": "perceptron"}')
    with pytest.raises(CheckpointError, match="'perceptron' is not one of"):
        describe_checkpoint(tmp_path)
