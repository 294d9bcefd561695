"""`attnscope compare`: two checkpoints over held-out texts, printed and saved."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from small import Reversal

import models
from models import cli
from models.analysis.comparison import compare
from models.analysis.head_matching import KindDistances, match_heads
from models.checkpoint import save_checkpoint
from models.commands import compare as compare_command

NUMBER = r"([+-]?\d\.\d{3})"


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{word}\t{word[::-1]}\n" for word in Reversal().held_out_words))
    return file


def command(first: object, second: object, out: Path, *more: object) -> int:
    flags = ["--out", str(out), "--device", "cpu", *map(str, more)]
    return cli.main(["compare", str(first), str(second), *flags])


@pytest.mark.slow
def test_a_checkpoint_compared_with_itself(trained_folder, pairs, tmp_path, capsys):
    out = tmp_path / "found.json"
    assert command(trained_folder, trained_folder, out, "--data", pairs, "--limit", 20) == 0
    printed, saved = capsys.readouterr().out, json.loads(out.read_text())
    assert f"saved to {out}" in printed
    assert "on 20 texts" in printed
    assert "only 20 texts; 200 or more are advised" in printed
    assert len(saved["texts"]) == 20
    assert [kind["kind"] for kind in saved["kinds"]] == ["encoder_self", "decoder_self", "cross"]
    matched = re.findall(
        rf"(layer \d head \d) → (layer \d head \d)  {NUMBER}  margin {NUMBER}", printed
    )
    assert len(matched) == 9
    assert {(a == b, distance) for a, b, distance, _ in matched} == {(True, "0.000")}
    for kind in saved["kinds"]:
        assert kind["same head"][0][0] == {"mean": 0, "low": 0, "high": 0}
        assert (
            kind["every head of A from every head of B"]
            == kind["every head of A from every head of A"]
        )


def test_the_numbers_are_means_over_single_runs(tmp_path):
    out = tmp_path / "found.json"
    assert command("dates", "dates-stacked", out, "--limit", 8) == 0
    saved = json.loads(out.read_text())
    scopes = [models.load(name, device="cpu") for name in ("dates", "dates-stacked")]
    each = []
    for text in saved["texts"]:
        found = compare(*(scope.run(*text) for scope in scopes))
        each.append({pair.kind: pair.distances for pair in found.kinds})
    ours = scopes[0].run(*saved["texts"][0]).attention.values()
    for kind in saved["kinds"]:
        n_heads = sum(site.n_heads for site in ours if site.kind == kind["kind"])
        assert len(kind["heads of A"]) == n_heads
        mean = torch.stack([one[kind["kind"]] for one in each]).mean(0)
        means = torch.tensor([[one["mean"] for one in layer] for layer in kind["same head"]])
        torch.testing.assert_close(means, mean, atol=1e-5, rtol=1e-4)
        assert all(
            one["low"] <= one["mean"] <= one["high"] for layer in kind["same head"] for one in layer
        )
        for match in kind["matches"]:
            row = kind["heads of A"].index(match["first"])
            column = kind["heads of B"].index(match["second"])
            assert match["distance"] == kind["every head of A from every head of B"][row][column]


def test_other_checkpoints_of_the_recipe_give_the_null_distribution(
    trained_folder, pairs, tmp_path, capsys
):
    out, scope = tmp_path / "found.json", models.load(trained_folder)
    others = []
    for i in range(3):
        for name, weights in scope.model.named_parameters():
            if "self_attn" in name:
                weights.data *= 1.1
        save_checkpoint(tmp_path / f"other-{i}", scope.model, scope.tokenizer, {"step": 1})
        others.append(tmp_path / f"other-{i}")
    given = ["--data", pairs, "--limit", 8, "--null", *others]
    assert command(trained_folder, trained_folder, out, *given) == 0
    saved, printed = json.loads(out.read_text()), capsys.readouterr().out
    assert saved["null"] == ["other-0", "other-1", "other-2"]
    for kind in saved["kinds"]:
        matched = kind["matches of other checkpoints"]
        assert len(matched) == 3 * len(kind["heads of A"])
        assert {match["distance"] for match in kind["matches"]} == {0}
        as_close = sum(one <= 0 for one in matched)
        assert {match["p"] for match in kind["matches"]} == {(1 + as_close) / (1 + len(matched))}
    assert "p: (1 + matches" in printed


def test_the_report_and_the_file_name_each_model_at_its_own_heads(capsys):
    """A has a layer of 2 heads, B one of 3: head 1 of A is matched to head 3 of B, head 2 to head 1."""
    first, second = (
        SimpleNamespace(name=name, fingerprint=f"of {name}") for name in ("ours", "theirs")
    )
    ours, theirs = (tuple((0, head) for head in range(n)) for n in (2, 3))
    mean = torch.tensor([[0.5, 0.75, 0.125], [0.25, 1.0, 0.5]])
    own = torch.tensor([[[0.25, 1.0]], [[0.75, 1.0]]])  # (text, layer, head)
    kind = KindDistances("self", "Self-attention", ours, theirs, mean, own, ("tokens",))
    matches = {"self": match_heads(kind)}
    intervals = {"self": compare_command._intervals(kind, 0)}
    compare_command._report(first, second, 200, [kind], intervals, matches)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("ours and theirs on 200 texts")
    assert printed[2:4] == [
        "  layer 1 head 1  0.500 (0.250 to 0.750)",
        "  layer 1 head 2  1.000 (1.000 to 1.000)",
    ]
    assert printed[-2:] == [
        "  layer 1 head 1 → layer 1 head 3  0.125  margin +0.375",
        "  layer 1 head 2 → layer 1 head 1  0.250  margin +0.250",
    ]
    assert "advised" not in " ".join(printed), "as many texts as advised"
    assert any("margin:" in line for line in printed)
    alone = {"self": [replace(match, margin=None) for match in matches["self"]]}
    compare_command._report(first, second, 200, [kind], intervals, alone)
    assert "margin" not in capsys.readouterr().out, "no margin is printed, so none is explained"
    among = torch.tensor([[0.0, 0.375], [0.375, 0.0]])
    within = replace(kind, second=ours, mean=among)
    saved = compare_command._content(
        first, second, [], [], [kind], [within], intervals, matches, {}
    )
    assert saved["kinds"][0]["every head of A from every head of B"] == mean.tolist()
    assert saved["kinds"][0]["every head of A from every head of A"] == among.tolist()
    assert (saved["A"]["name"], saved["B"]["name"]) == ("ours", "theirs")
    assert [len(saved["kinds"][0][f"heads of {side}"]) for side in "AB"] == [2, 3]


def test_another_tokenizer_is_compared_by_words(tmp_path, capsys):
    lines = tmp_path / "lines.txt"
    lines.write_text("She is reading a book.\nThe cat sat on the mat.\n" * 5)
    assert command("gpt", "gpt-char", tmp_path / "found.json", "--data", lines) == 0
    assert "compared by words" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["dates", "dates-rnn", "--limit", "8"], "dates-rnn has no attention"),
        (["dates", "nosuch"], "neither a folder nor a shipped checkpoint"),
        (["dates", "dates", "--null", "dates"], "at least two checkpoints"),
        (
            ["dates", "dates-dot", "--null", "dates-cosine", "dates-dot"],
            "dates-dot has the weights of dates-dot",
        ),
        (["dates", "dates-dot", "--null", "gpt", "gpt"], "gpt has the weights of gpt"),
        (["dates", "dates", "--limit", "3"], "but the limit is 3"),
    ],
)
def test_checkpoints_that_cannot_be_compared(flags, why, tmp_path, capsys):
    out = tmp_path / "found.json"
    assert cli.main(["compare", *flags, "--out", str(out), "--device", "cpu"]) == 1
    assert why in capsys.readouterr().err
    assert not out.exists()


def test_a_stopped_comparison_saves_nothing(tmp_path, capsys, monkeypatch):
    def stopped(*given, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(compare_command, "runs", stopped)
    assert command("dates", "dates", tmp_path / "found.json", "--limit", 8) == 130
    assert "stopped" in capsys.readouterr().err
    assert not (tmp_path / "found.json").exists()


def test_a_folder_as_output_file_is_refused_before_the_work(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(compare_command, "runs", lambda *given: pytest.fail("work"))
    assert command("dates", "dates", tmp_path) == 1
    assert "is a folder" in capsys.readouterr().err


def test_results_are_printed_if_saving_fails(tmp_path, capsys, monkeypatch):
    def full(*given):
        raise OSError("No space left on device")

    monkeypatch.setattr(compare_command, "write_bytes", full)
    assert command("dates", "dates", tmp_path / "found.json", "--limit", 8) == 1
    printed = capsys.readouterr()
    assert "layer 1 head 1 → layer 1 head 1" in printed.out
    assert "saved to" not in printed.out
    assert "No space left" in printed.err


def test_models_of_two_fields_are_compared_on_both(tmp_path, capsys):
    out = tmp_path / "found.json"
    assert command("bert-where", "bert-where", out, "--limit", 8) == 0
    saved = json.loads(out.read_text())
    assert all(len(text) == 2 and all(text) for text in saved["texts"])
    assert "p:" not in capsys.readouterr().out
