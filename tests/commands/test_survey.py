"""`attnscope survey`: what it prints and records, for which weights, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from small import random_seq2seq
from small_scopes import HELD_OUT, LETTERS, as_text

import models
from models import cli
from models.checkpoint import add_to_record, save_checkpoint
from models.percent import percent
from models.runs import surveys
from models.runs.explanation import Adversary, adversary
from models.runs.surveys import survey_recovery


@pytest.fixture
def aligned(tmp_path: Path) -> Path:
    """A checkpoint of an RNN with alignment whose random weights are large enough that its texts differ."""
    model = random_seq2seq(3, vocab_size=LETTERS.vocab_size, n_ctx=11)
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(3)
    texts = [as_text(text, LETTERS)[:7] for text in HELD_OUT]
    save_checkpoint(
        tmp_path / "rnn", model, LETTERS, {"step": 3, "held_out": [[t, t[::-1]] for t in texts]}
    )
    return tmp_path / "rnn"


def survey(folder: Path, *words: str, name: str = "recovery") -> int:
    return cli.main(["survey", name, str(folder), "--device", "cpu", *words])


def test_what_is_printed_is_recorded_for_these_weights(aligned, capsys, monkeypatch):
    assert survey(aligned, "--seed", "5", "--record") == 0
    title, *lines = capsys.readouterr().out.splitlines()
    assert "rnn: recovery" in title
    scope = models.load(aligned, device="cpu")
    found = scope.training["surveys"]["recovery"]
    assert (found["seed"], found["measured_on"]) == (5, scope.weights_digest)
    sources = [scope.encode(text[0])["source"] for text in scope.held_out]
    again = survey_recovery(scope, sources, 5, lambda done, total: None)
    assert list(found["means"]) == list(again)
    for line, (name, one) in zip(lines, again.items(), strict=True):
        shares = [percent(share) for share in (one.mean, one.low, one.high)]
        assert (
            line.split()
            == f"{name} {shares[0]} ({shares[1]} to {shares[2]}), {one.n_texts} texts".split()
        )
        assert found["means"][name] == vars(one)

    monkeypatch.setattr(surveys, "adversary", _hasty)
    monkeypatch.setattr(surveys, "ADVERSARY_TEXTS", 1)
    assert survey(aligned, "--record", name="weights") == 0
    assert "nats (" in capsys.readouterr().out
    assert models.load(aligned).training["surveys"]["recovery"] == found  # both stay

    weights = load_file(aligned / "model.safetensors")
    save_file({name: w * 1.01 for name, w in weights.items()}, aligned / "model.safetensors")
    add_to_record(aligned, checksums={})
    assert "surveys" not in models.load(aligned).training


def _hasty(row: Any, **how: Any) -> Adversary:
    return adversary(row, n_steps=1, **how)


def test_a_survey_that_is_stopped_or_not_recorded_writes_nothing(aligned, capsys, monkeypatch):
    before = (aligned / "training.json").read_text()
    assert survey(aligned) == 0
    made, greedy = [], surveys.greedy

    def stopped(*given, **how):
        if len(made) == 3:
            raise KeyboardInterrupt
        made.append(given)
        return greedy(*given, **how)

    monkeypatch.setattr(surveys, "greedy", stopped)
    assert survey(aligned, "--record") == 130
    assert "stopped" in capsys.readouterr().err
    assert (aligned / "training.json").read_text() == before


def test_what_cannot_be_surveyed_is_said(aligned, trained_folder, capsys):
    assert survey(trained_folder, name="weights") == 1
    assert "6 heads whose rows belong to written words; exactly 1" in capsys.readouterr().err
    assert survey(trained_folder) == 1  # its words have three letters at most
    assert "of at least 4 words" in capsys.readouterr().err
    assert cli.main(["survey", "recovery", "gpt", "--device", "cpu"]) == 1
    assert "gpt does not translate" in capsys.readouterr().err
    record = json.loads((aligned / "training.json").read_text())
    (aligned / "training.json").write_text(json.dumps(record | {"held_out": [["ab", "ba"]]}))
    assert survey(aligned) == 1
    assert "the record holds 1 texts" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        survey(aligned, "--seed", "-1")
