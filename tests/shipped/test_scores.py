"""Scores belong to the weights they were measured on: in a record, in a loaded checkpoint, and with `evaluate --snapshots`."""

import json
import shutil
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.torch import save_file
from small import random_model, random_seq2seq

import models
from models.checkpoint import CheckpointError, add_to_record, fingerprint, seal
from models.checkpoint_files import snapshot_path
from models.cli import main
from models.commands import evaluate as evaluate_command
from models.opening import shipped_folder
from models.scores import at_snapshot, of_weights, without_scores
from models.tasks import open_task
from models.tokenizers.base import Tokenizer
from models.training.task import Evaluation, Task
from models.weights import weights_digest

SCORES, BY_LENGTH = (
    {"held-out exact match": 50.0, "cases": 4},
    [{"least": 1, "most": 2, "cases": 4, "score": 50.0}],
)


@pytest.fixture
def dates(tmp_path: Path) -> Path:
    """The shipped checkpoint dates with two of its snapshots, to be changed at will."""
    folder = Path(shutil.copytree(shipped_folder() / "dates", tmp_path / "dates"))
    for step in models.load(folder, device="cpu").snapshots:
        if step not in (125, 2000):
            snapshot_path(folder, step).unlink()
    return folder


def record(folder: Path) -> dict:
    return json.loads((folder / "training.json").read_text())


# --- fingerprints


def fingerprint_of(model: object, tokenizer: Tokenizer | None = None) -> str:
    return fingerprint(model, tokenizer or Tokenizer.characters("abc"), weights_digest(model))


def test_a_fingerprint_changes_with_one_number_one_setting_or_one_token_and_with_nothing_else() -> (
    None
):
    one, again = random_model(), random_model()
    assert fingerprint_of(one) == fingerprint_of(again)
    assert len(fingerprint_of(one)) == 64
    found = {
        fingerprint_of(one),
        fingerprint_of(one, Tokenizer.characters("abd")),
        fingerprint_of(random_model(dropout=0.3)),
    }
    assert weights_digest(random_model(dropout=0.3)) == weights_digest(one)
    for parameter in again.parameters():
        parameter.data.view(-1)[-1] += 2**-20
        found.add(fingerprint_of(again))
        parameter.data.view(-1)[-1] -= 2**-20
    assert len(found) == 3 + len(list(again.parameters()))


def test_which_parameter_holds_a_number_matters() -> None:
    model = random_seq2seq()
    names = dict(model.named_parameters())
    first, second = (names[f"encoder.recurrence.bias_{kind}_l0"] for kind in ("ih", "hh"))
    before = fingerprint_of(model)
    first.data, second.data = second.data, first.data
    assert fingerprint_of(model) != before


def test_a_fingerprint_depends_on_neither_folder_nor_record(dates: Path, tmp_path: Path) -> None:
    there = models.load(dates, device="cpu")
    assert there.fingerprint == models.load("dates", device="cpu").fingerprint
    add_to_record(dates, licence="other", step=3)
    other = Path(shutil.copytree(dates, tmp_path / "other"))
    assert models.load(other, device="cpu").fingerprint == there.fingerprint
    assert models.load(other, device="cpu", snapshot=125).fingerprint != there.fingerprint
    swapped = {
        there.with_similarity(name).fingerprint for name in models.layers.similarity.SIMILARITIES
    }
    assert len(swapped) == 5
    assert there.fingerprint in swapped  # under its own similarity it is the same model
    assert (
        there.with_similarity("additive").fingerprint
        == there.with_similarity("additive").fingerprint
    )


# --- records


def test_a_record_keeps_its_scores_for_their_weights() -> None:
    known = {
        "step": 7,
        "scores": SCORES,
        "by_length": BY_LENGTH,
        "measured_on": "a",
        "licence": "x",
    }
    assert of_weights(known, "a") == known
    assert (
        of_weights(known, "b") == without_scores(known) == {"step": 7, "scores": {}, "licence": "x"}
    )
    old = {"step": 7, "scores": SCORES}
    assert of_weights(old, "b") == old
    other = {"scores": SCORES | {"cases": 5}, "measured_on": "c", "step": 9}
    assert at_snapshot(known | {"snapshot_scores": {"3": other}}, 3) == {
        "step": 7, "scores": other["scores"], "measured_on": "c", "licence": "x", "snapshot_scores": {"3": other},
    }  # fmt: skip
    assert at_snapshot(known, 3)["scores"] == {}


def test_weights_that_replace_the_measured_ones_have_no_score(dates: Path) -> None:
    scope = models.load(dates, device="cpu")
    assert scope.training["scores"] == {"held-out exact match": 100.0, "cases": 2000}
    assert scope.training["by_length"]
    assert (
        models.load(dates, device="cpu", snapshot=125).training["scores"]["held-out exact match"]
        == 0.5
    )
    assert "by_length" not in models.load(dates, device="cpu", snapshot=125).training
    assert scope.with_similarity("dot").training["scores"] == {}
    for path in (dates / "model.safetensors", snapshot_path(dates, 125)):
        with safe_open(path, "pt") as file:
            state, step = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118 (not a dict)
        state["embedding.weight"][3] += 1
        save_file(state, path, step)
    seal(dates)
    for other in (models.load(dates, device="cpu"), models.load(dates, device="cpu", snapshot=125)):
        assert other.training["scores"] == {}
        assert "by_length" not in other.training
    assert (
        models.load(dates, device="cpu", snapshot=2000).training["scores"]["held-out exact match"]
        == 98.4
    )


@pytest.mark.parametrize(
    "entry",
    [
        [], {"125": 3}, {"125": {}}, {"125": {"scores": [3]}}, {"125": {"scores": {"held-out BLEU": "4"}}},
        {"125": {"scores": {"held-out BLEU": 104}}}, {"125": {"scores": {"cases": 0.5}}}, {"later": {"scores": {}}},
        {"125": {"scores": {}, "measured_on": "c"}},
    ],
)  # fmt: skip
def test_malformed_snapshot_scores_are_named(dates: Path, entry: object) -> None:
    path = dates / "training.json"
    path.write_text(json.dumps(record(dates) | {"snapshot_scores": entry}), "utf-8")
    with pytest.raises(
        CheckpointError,
        match=r"training\.json: snapshot_scores must be an object with scores.* for each step",
    ):
        models.load(dates, device="cpu")


# --- evaluate --snapshots


def right(folder: Path, step: int, n: int) -> float:
    """Return the percentage of correct answers, counted one by one."""
    scope, cases = models.load(folder, device="cpu", snapshot=step), open_task("dates").held_out(n)
    return 100 * sum(scope.write(case.source).text in case.references for case in cases) / n


def test_every_snapshot_is_scored_by_itself(
    dates: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = record(dates)
    assert main(["evaluate", str(dates), "--snapshots", "--limit", "60", "--device", "cpu"]) == 0
    out = capsys.readouterr()
    expected = [(step, right(dates, step, 60)) for step in (125, 2000)]
    assert expected[0][1] < expected[1][1]
    assert out.out.splitlines() == [
        f"step {step:6,}: exact match {value:.2f} over 60 held-out cases"
        for step, value in expected
    ]
    assert "60/60" in out.err or "step 2,000:" in out.err  # the progress bar
    assert record(dates) == before


def test_scores_are_recorded_at_once_and_kept_when_scoring_is_stopped(
    dates: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = open_task("dates").held_out(40)
    monkeypatch.setattr("models.tasks.dates.DatesTask.held_out", lambda self, n=None, **_: cases)
    add_to_record(dates, snapshot_scores={})
    evaluate, done = evaluate_command._evaluate, []

    def stopped(task: Task, scope: models.Scope, *rest: object) -> Evaluation:
        if done:
            raise KeyboardInterrupt
        done.append(scope.training["step"])
        return evaluate(task, scope, *rest)

    monkeypatch.setattr(evaluate_command, "_evaluate", stopped)
    assert main(["evaluate", str(dates), "--snapshots", "--record", "--device", "cpu"]) == 130
    assert done == [125]
    assert list(record(dates)["snapshot_scores"]) == ["125"]
    monkeypatch.setattr(evaluate_command, "_evaluate", evaluate)
    assert main(["evaluate", str(dates), "--snapshots", "--record", "--device", "cpu"]) == 0
    found = record(dates)["snapshot_scores"]
    assert {int(step): one["scores"] for step, one in found.items()} == {
        step: {"held-out exact match": round(right(dates, step, 40), 2), "cases": 40}
        for step in (125, 2000)
    }
    assert (
        models.load(dates, device="cpu", snapshot=2000).training["scores"]
        == found["2000"]["scores"]
    )
    assert record(dates)["scores"] == {
        "held-out exact match": 100.0,
        "cases": 2000,
    }  # the finished weights keep theirs
    capsys.readouterr()


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        (
            "dates-attn",
            [],
            "dates-attn has no training snapshots",
        ),
        ("dates", ["--by-length"], "--by-length applies to the final weights, not to --snapshots"),
        ("dates", ["--limit", "3", "--record"], "--record needs the score over all cases"),
    ],
)
def test_checkpoints_that_cannot_be_scored_this_way_are_refused(
    name: str, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", name, "--snapshots", "--device", "cpu", *more]) == 1
    assert message in capsys.readouterr().err


def test_the_shipped_scores_name_their_weights() -> None:
    scope = models.load("dates", device="cpu")
    known = record(shipped_folder() / "dates")
    assert known["measured_on"] == scope.weights_digest
    assert known["snapshot_scores"]["4000"]["measured_on"] == scope.weights_digest
    assert known["snapshot_scores"]["4000"]["scores"] == known["scores"]
    percents = [one["scores"]["held-out exact match"] for one in known["snapshot_scores"].values()]
    assert percents == sorted(percents)
    assert all(one["scores"]["cases"] == 2000 for one in known["snapshot_scores"].values())
