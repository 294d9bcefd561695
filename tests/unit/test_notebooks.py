"""The notebooks of assets/ run from top to bottom, draw what they promise, and are no longer than comparable tutorials."""

import json
from pathlib import Path
from typing import Any

import pytest
from notebooks import FOLDER, PATHS, cells, execute, source

import models
from models import edits
from models.analysis.metrics import logits_of
from viz_app.notebook import Picture

# heading → lines of code, without empty ones and comments, for the same task in another library's tutorial
THEIRS = {
    "A translation": 17,  # bertviz, model_view_encoder_decoder.ipynb
    "Two texts": 23,  # bertviz, head_view_bert.ipynb
    "One head off": 19,  # TransformerLens, Main_Demo.ipynb, one head and its loss
    "Patching": 30,  # TransformerLens, Main_Demo.ipynb, residual stream by layer and position
}
LARGEST = 2**20  # bytes of all notebooks


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Any, str]]]:
    """The results of all notebooks, each run in its own folder."""
    return {path.stem: execute(path, tmp_path_factory.mktemp(path.stem)) for path in PATHS}


@pytest.mark.slow
def test_each_draws_pictures(outcomes) -> None:
    drawn = {
        name: [shown.title for shown, _ in each if isinstance(shown, Picture)]
        for name, each in outcomes.items()
    }
    assert {name: len(titles) for name, titles in drawn.items()} == {
        "1-first-look": 4,
        "2-hugging-face-checkpoint": 1,
        "3-ablation-and-patching": 1,
    }


def test_a_head_is_saved_beside_the_notebook(tmp_path: Path) -> None:
    execute(FOLDER / "1-first-look.ipynb", tmp_path)
    assert "<!doctype html>" in (tmp_path / "head.html").read_text("utf-8")


@pytest.mark.slow
def test_transformers_computes_the_same_weights(outcomes) -> None:
    (largest,) = (
        shown for shown, _ in outcomes["2-hugging-face-checkpoint"] if isinstance(shown, float)
    )
    assert 0 <= largest < 1e-6


def test_the_random_checkpoint_is_said_to_be_one() -> None:
    first = source(cells(FOLDER / "2-hugging-face-checkpoint.ipynb")[0])
    assert "random weights" in first
    assert "means nothing" in first


def test_the_losses_are_those_of_the_runs(outcomes) -> None:
    """The printed line is compared with the logits of the same runs made here."""
    (printed,) = (text for _, text in outcomes["3-ablation-and-patching"] if "bits a token" in text)
    gpt, text = models.load("gpt"), "It's not good to read in the dark, because it hurts your eyes."
    for line, changes in zip(
        printed.splitlines(),
        ((), (edits.HeadOff("decoder.layers.0.self_attn", head=2),)),
        strict=True,
    ):
        run = gpt.run(text, edits=changes)
        ids = list(run.streams["text"].ids)
        chosen = logits_of(run.outputs).log_softmax(-1)[range(len(ids) - 1), ids[1:]]
        bits = -float(chosen.mean()) / 0.6931471805599453
        assert float(line.split(": ")[1].split()[0]) == pytest.approx(bits, abs=6e-4)


def test_one_word_of_the_source_changes_the_answer(outcomes) -> None:
    """As the text beside the table says, the input has 1 where the two sentences differ, and 0 elsewhere."""
    table = outcomes["3-ablation-and-patching"][3][0]
    start = table.iloc[0]
    assert start.idxmax() == "▁father"
    assert start.max() == 1
    assert (start.drop("▁father") == 0).all()


def test_the_two_identities_of_patching_hold_to_the_bit(outcomes) -> None:
    assert outcomes["3-ablation-and-patching"][-1][1].split() == ["0.0", "0.0"]


@pytest.mark.parametrize("heading", THEIRS)
def test_a_task_takes_no_more_lines_than_in_comparable_tutorials(heading: str) -> None:
    lines = [line for path in PATHS for line in _lines_under(path, heading)]
    assert 0 < len(lines) <= THEIRS[heading]


def _lines_under(path: Path, heading: str) -> list[str]:
    lines, is_under = [], False
    for cell in cells(path):
        text = source(cell)
        if cell["cell_type"] == "markdown" and text.startswith("## "):
            is_under = text.startswith(f"## {heading}\n")
        elif is_under and cell["cell_type"] == "code":
            lines += [
                line for line in text.splitlines() if line.strip() and not line.startswith("#")
            ]
            is_under = heading != "One head off"  # all heads at once is a separate task
    return lines


def test_they_are_small_and_without_outputs() -> None:
    assert len(PATHS) == 3
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < LARGEST
    for path in PATHS:
        whole = json.loads(path.read_text("utf-8"))
        assert (whole["nbformat"], whole["nbformat_minor"]) == (4, 5)
        code = [cell for cell in whole["cells"] if cell["cell_type"] == "code"]
        assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
