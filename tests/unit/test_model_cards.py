"""Model cards: the output of `attnscope card`, and that the shipped ones match the records."""

import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard
from small import random_gpt

import models
from models import cli
from models.checkpoint import add_to_record, save_checkpoint
from models.checkpoint_files import CONFIG, RECORD
from models.model_card import CARD, card_text
from models.model_card.text import number_text
from models.opening import shipped_folder
from models.tokenizers.base import Tokenizer

SHIPPED = models.shipped()


def text(name: str) -> str:
    return (shipped_folder() / name / CARD).read_text("utf-8")


def record(name: str) -> dict[str, Any]:
    return json.loads((shipped_folder() / name / RECORD).read_text("utf-8"))


def table(name: str, header: str) -> list[list[str]]:
    """Return the cells of the card's table whose header begins so, without header and rule."""
    lines = text(name).splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(f"| {header} |"))
    body = lines[first + 2 :]
    end = next((i for i, line in enumerate(body) if not line.startswith("|")), len(body))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in body[:end]]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_card_equals_the_output_of_the_command(name: str) -> None:
    assert text(name) == card_text(models.load(name, device="cpu")), f"run `attnscope card {name}`"


@pytest.mark.parametrize("name", SHIPPED)
def test_the_header_is_read_by_the_hub_and_holds_the_recorded_score(name: str) -> None:
    (metric, score), *_ = record(name)["scores"].items()
    data = ModelCard(text(name)).data
    (result,) = data.eval_results
    assert (result.metric_name, result.metric_value) == (metric, score)
    assert (data.model_name, data.library_name) == (name, "attnscope")
    assert data.language == record(name).get("languages")
    assert data.license is None


@pytest.mark.parametrize("name", SHIPPED)
def test_every_recorded_score_is_in_the_table(name: str) -> None:
    scores = record(name)["scores"]
    n_cases = scores.pop("cases")
    assert [
        [metric, float(value.replace(",", ""))] for metric, value in table(name, "measure")
    ] == [[metric, pytest.approx(value, abs=0.005001)] for metric, value in scores.items()]
    assert f"over {n_cases:,} held-out cases" in text(name)


@pytest.mark.slow(except_one_in=5)
@pytest.mark.parametrize("name", SHIPPED)
def test_size_command_and_licence_are_those_of_the_checkpoint(name: str) -> None:
    scope = models.load(name, device="cpu")
    n = sum(parameter.numel() for parameter in scope.model.parameters())
    assert f", {n:,} parameters." in text(name)
    assert f"```sh\n{record(name)['command']}\n```" in text(name)
    assert f"licence of the data: {record(name)['licence']}\n" in text(name)
    sizes = json.loads((shipped_folder() / name / CONFIG).read_text("utf-8"))
    assert ["d_model", f"`{sizes['d_model']}`"] in table(name, "setting")


@pytest.mark.parametrize("name", [name for name in SHIPPED if "by_length" in record(name)])
def test_the_scores_by_length_are_the_records(name: str) -> None:
    groups = record(name)["by_length"]
    (_, *scores), (_, *cases) = table(name, "words")
    assert [float(score) for score in scores] == [group["score"] for group in groups]
    assert [int(n.replace(",", "")) for n in cases] == [group["cases"] for group in groups]


def test_the_variants_of_a_training_are_the_records() -> None:
    runs = record("gpt-sentiment")["runs"]
    rows = table("gpt-sentiment", "accuracy, %")
    for run, (name, *folds, mean, perplexity) in zip(runs, rows, strict=True):
        assert (name, list(map(float, folds))) == (run["name"], run["accuracy"])
        expected = statistics.mean(run["accuracy"]), statistics.stdev(run["accuracy"])
        assert mean == "{:.2f} ± {:.2f}".format(*expected)
        values = run.get("text perplexity", [])
        assert perplexity == (f"{min(values):,.0f} to {max(values):,.0f}" if values else "–")
        assert run["command"] in text("gpt-sentiment")


def test_the_scores_of_earlier_steps_are_the_records() -> None:
    entries = record("dates")["snapshot_scores"]
    assert [[step.replace(",", ""), float(score)] for step, score in table("dates", "step")] == [
        [step, entry["scores"]["held-out exact match"]] for step, entry in entries.items()
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokenizer = Tokenizer.characters("abcdefghijklmnopqrstuvwxyz ")
    model = random_gpt(vocab_size=tokenizer.vocab_size)
    save_checkpoint(tmp_path / "mine", model, tokenizer, {"task": "language", "step": 7})
    return tmp_path / "mine"


def test_the_card_of_a_checkpoint_without_scores_claims_none(folder: Path) -> None:
    assert cli.main(["card", str(folder)]) == 0
    written = (folder / CARD).read_text("utf-8")
    assert "No score was measured on these weights." in written
    assert "licence of the data: not recorded" in written
    assert not ModelCard(written).data.eval_results


def test_a_recorded_score_note_and_language_reach_the_card(folder: Path) -> None:
    add_to_record(
        folder,
        scores={"held-out perplexity": 12.3456, "cases": 31},
        notes=['It said: "yes" | no'],
        languages=["fr"],
        data={"file": 'a "quoted": name.tsv'},
    )
    assert cli.main(["card", str(folder)]) == 0
    written = (folder / CARD).read_text("utf-8")
    (result,) = (data := ModelCard(written).data).eval_results
    assert (result.metric_type, result.metric_value) == ("perplexity", 12.3456)
    assert result.dataset_name == 'held-out cases of a "quoted": name.tsv'
    assert data.language == ["fr"]
    assert 'It said: "yes" | no' in written
    assert models.load(folder, device="cpu").training["scores"]["held-out perplexity"] == 12.3456


@pytest.mark.parametrize(
    ("value", "written"),
    [(7, "7"), (1234.567, "1,234.57"), (100.0, "100.00"), (99.998, "99.998"), (0.0, "0.00"), (0.004, "0.004")],
)  # fmt: skip
def test_a_score_is_not_rounded_to_a_whole_or_to_nothing(value: float, written: str) -> None:
    assert number_text(value) == written


def test_scores_of_other_weights_are_not_put_into_the_card(folder: Path) -> None:
    add_to_record(folder, scores={"held-out perplexity": 12.5}, measured_on="0" * 64)
    assert cli.main(["card", str(folder)]) == 0
    assert not re.search(r"12\.5", (folder / CARD).read_text("utf-8"))


@pytest.mark.parametrize("entry", [{"languages": ["English"]}, {"notes": "one"}, {"notes": [3]}])
def test_a_malformed_language_or_note_is_refused(folder: Path, entry: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(entry))):
        add_to_record(folder, **entry)


def test_an_unknown_checkpoint_has_no_card(capsys: pytest.CaptureFixture) -> None:
    assert cli.main(["card", "no-such-model"]) == 1
    assert "no-such-model" in capsys.readouterr().err
