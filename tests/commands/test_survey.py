"""`attnscope survey`: its output and records, the weights they belong to, and requests it refuses."""

import json
import math
import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from small import random_seq2seq
from small_scopes import HELD_OUT, LETTERS, as_text

import models
from models import cli
from models.checkpoint import add_to_record, save_checkpoint
from models.checkpoint_files import checksum
from models.commands import ablate as ablate_command
from models.commands import survey as survey_command
from models.number_text import percent
from models.runs import surveys
from models.runs.explanation import Adversary, adversary
from models.runs.survey_parts import SurveyParts
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
    state = str(folder.parent / "state.json")
    return cli.main(["survey", name, str(folder), "--device", "cpu", "--state", state, *words])


@pytest.mark.slow
def test_the_printed_results_are_recorded_for_these_weights(aligned, capsys, monkeypatch):
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


@pytest.mark.parametrize("command", [["ablate"], ["survey", "recovery"]])
def test_a_checkpoint_without_a_record_refuses_record(command, aligned, monkeypatch, capsys):
    def without_record(name, device):
        scope = models.load(name, device=device)
        (aligned / "training.json").unlink()
        return scope

    for module in (survey_command, ablate_command):
        monkeypatch.setattr(module, "load", without_record)
    assert cli.main([*command, str(aligned), "--record", "--device", "cpu"]) == 1
    assert "rnn has no training record" in capsys.readouterr().err


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
    said = capsys.readouterr().err
    assert "stopped" in said
    assert "the same command continues" in said
    assert (aligned / "training.json").read_text() == before


def stop_after(n: float, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Press Ctrl-C instead of computing part n + 1; collect the names of the computed parts."""
    made, numbers = [], NUMBERS

    def counted(
        self: SurveyParts, name: str, most: float, work_out: Callable[[], Sequence[float]]
    ) -> list[float]:
        def work() -> Sequence[float]:
            if len(made) == n:
                signal.raise_signal(signal.SIGINT)
            made.append(name)
            return work_out()

        return numbers(self, name, most, work)

    monkeypatch.setattr(SurveyParts, "numbers", counted)
    return made


NUMBERS = SurveyParts.numbers


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """A file of letters and the same backwards."""
    drawn = ["".join(Random(i).choices("abcdefg", k=1 + i % 6)) for i in range(900)]
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{text}\t{text[::-1]}\n" for text in dict.fromkeys(drawn)))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", ["recovery", "weights", "frozen"])
def test_a_stopped_survey_continues_to_the_same_numbers(name, aligned, pairs, capsys, monkeypatch):
    monkeypatch.setattr(surveys, "adversary", _hasty)
    monkeypatch.setattr(surveys, "ADVERSARY_TEXTS", 3)
    monkeypatch.setattr(surveys, "N_PERMUTATIONS", 2)
    monkeypatch.setattr(surveys, "quick_tests", partial(surveys.quick_tests, n=2))
    monkeypatch.setattr(survey_command, "GUIDED_STEPS", 3)
    of = {"recovery": [], "weights": ["--limit", "8"], "frozen": ["--data", str(pairs)]}
    words = ["--record", *of[name]]
    state = aligned.parent / "state.json"
    every = stop_after(math.inf, monkeypatch)
    assert survey(aligned, *words, name=name) == 0
    whole = capsys.readouterr().out
    record = (aligned / "training.json").read_text()
    add_to_record(aligned, surveys={})
    parts = []
    for n in (1, 3, 0, 2):  # with 0 parts nothing new is kept
        made = stop_after(n, monkeypatch)
        assert survey(aligned, *words, name=name) == 130
        assert len(made) == n
        parts += made
        capsys.readouterr()
        assert json.loads(state.read_text())["parts"].keys() == set(parts)
    made = stop_after(math.inf, monkeypatch)
    assert survey(aligned, *words, name=name) == 0
    continued = capsys.readouterr().out
    assert continued == f"continues {state}\n{whole}"
    assert [*parts, *made] == every  # each once
    assert (aligned / "training.json").read_text() == record
    assert not state.exists()


def test_parts_are_kept_every_second_in_case_the_process_is_killed(aligned, monkeypatch):
    monkeypatch.setattr("models.runs.survey_parts.WRITE_EVERY", 0.0)
    state, kept = aligned.parent / "state.json", []
    slip = surveys.make_slip

    def watched(*given: Any) -> Any:
        kept.append(set(json.loads(state.read_text())["parts"]))
        return slip(*given)

    monkeypatch.setattr(surveys, "make_slip", watched)
    assert survey(aligned) == 0
    assert [len(one) for one in kept] == list(range(len(kept[0]), len(kept[0]) + len(kept)))


def _changed(state: dict[str, Any]) -> None:
    name = next(iter(state["parts"]))
    state["parts"][name] = [*state["parts"][name], 0]


def _sealed_nonsense(state: dict[str, Any]) -> None:
    """Return a state with impossible numbers and a matching checksum."""
    state["parts"] = {"text 0": [10**9]}
    state["checksum"] = checksum(json.dumps(state["parts"]).encode())


DAMAGES = {
    "is damaged": _changed,
    "is damaged at 'text 0'": _sealed_nonsense,
    "is damaged; remove": lambda state: state.update(parts=[1]),
    "another survey": lambda state: state.update(belongs="0" * 64),
}


@pytest.mark.parametrize("message", DAMAGES)
def test_a_state_that_cannot_be_trusted_is_refused(message, aligned, capsys, monkeypatch):
    state = aligned.parent / "state.json"
    stop_after(2, monkeypatch)
    assert survey(aligned) == 130
    content = json.loads(state.read_text())
    DAMAGES[message](content)
    state.write_text(json.dumps(content))
    assert survey(aligned) == 1
    assert message in capsys.readouterr().err
    assert json.loads(state.read_text()) == content  # for the user to remove


def test_the_state_of_other_settings_texts_or_files_is_refused(aligned, capsys, monkeypatch):
    state = aligned.parent / "state.json"
    stop_after(2, monkeypatch)
    assert survey(aligned) == 130
    for words, name in ((["--seed", "1"], "recovery"), (["--limit", "9"], "recovery"), ([], "weights")):  # fmt: skip
        assert survey(aligned, *words, name=name) == 1
        assert "another survey; remove it, or choose another file" in capsys.readouterr().err
    state.write_text(state.read_text()[:-9])
    assert survey(aligned) == 1
    assert "not readable as JSON" in capsys.readouterr().err
    state.unlink()
    os.mkfifo(state)
    assert survey(aligned) == 1
    assert "not a regular file" in capsys.readouterr().err
    with state.with_name("large.json").open("wb") as large:
        large.truncate(2**24 + 1)
    assert survey(aligned, "--state", str(state.with_name("large.json"))) == 1
    assert "larger than the limit" in capsys.readouterr().err


def test_frozen_weights_are_surveyed_on_files_or_on_generated_texts(
    aligned, pairs, capsys, monkeypatch
):
    monkeypatch.setattr(survey_command, "GUIDED_STEPS", 3)
    assert survey(aligned, "--data", str(pairs), "--record", "--limit", "9", name="frozen") == 0
    _, *lines = capsys.readouterr().out.splitlines()
    recorded = models.load(aligned).training["surveys"]["frozen"]
    assert recorded["steps"] == 3
    means = recorded["means"]
    for line, (name, one) in zip(lines, means.items(), strict=True):
        ends = [100 * one[end] for end in ("mean", "low", "high")]
        if " over " in name:
            said = f"{ends[0]:+.1f} points ({ends[1]:+.1f} to {ends[2]:+.1f}), 9 texts"
            assert line.split() == [*name.split(), *said.split()]
        else:
            assert line.startswith(f"{name} ")
            assert "%" in line
    assert survey(aligned, name="frozen") == 1
    assert "name rnn's files with --data" in capsys.readouterr().err
    assert cli.main(["survey", "frozen", "eng-fra-rnn", "--device", "cpu"]) == 1
    assert "eng-fra-rnn has no attention from target to source" in capsys.readouterr().err
    monkeypatch.setattr(survey_command, "GUIDED_STEPS", 1)
    command = ["survey", "frozen", "dates-bahdanau", "--limit", "9", "--device", "cpu"]
    assert cli.main([*command, "--state", str(aligned.parent / "state.json")]) == 0
    assert "imposed over uniform" in capsys.readouterr().out


def test_models_that_cannot_be_surveyed_are_refused(aligned, trained_folder, capsys):
    assert survey(trained_folder, name="weights") == 1
    assert "6 heads whose rows belong to written words; exactly 1" in capsys.readouterr().err
    assert survey(trained_folder) == 1  # its words have at most three letters
    assert "of at least 4 words" in capsys.readouterr().err
    assert cli.main(["survey", "recovery", "gpt", "--device", "cpu"]) == 1
    assert "gpt does not translate" in capsys.readouterr().err
    record = json.loads((aligned / "training.json").read_text())
    (aligned / "training.json").write_text(json.dumps(record | {"held_out": [["ab", "ba"]]}))
    assert survey(aligned) == 1
    assert "the record holds 1 text that" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        survey(aligned, "--seed", "-1")
