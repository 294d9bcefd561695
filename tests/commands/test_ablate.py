"""`attnscope ablate`: a sweep over held-out pairs, stopped and continued."""

import json
import os
import re
from pathlib import Path
from random import Random
from statistics import fmean

import pytest
import torch
from safetensors.torch import load_file, save_file
from small import Reversal, random_bert, random_gpt, words_of
from small_scopes import LETTERS, as_scope, scope_of

import models
from models import cli
from models.checkpoint import Checkpoint, add_to_record
from models.commands import ablate as ablate_command
from models.errors import InputError
from models.held_out_texts import MIN_HELD_OUT_TEXTS, common_texts, held_out, runs
from models.runs.scope import Scope
from models.runs.sweep import Sweep, SweepResult
from models.runs.text_loss import complete_streams
from models.tasks.language import LanguageTask
from models.trace.edits import HeadScale, Where

QUESTION, STORY = "Where is Mary?", "Mary went to the garden."


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """A file of words and their reversals that the model has never seen."""
    file = tmp_path / "pairs.tsv"
    words = Reversal().held_out_words
    file.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))
    return file


def ablate(folder: Path, pairs: Path, *more: str) -> int:
    flags = ["--data", str(pairs), "--orders", "2", "--device", "cpu", *more]
    return cli.main(["ablate", str(folder), *flags])


@pytest.mark.slow
def test_every_head_is_listed_and_a_stopped_sweep_continues(
    trained_folder, pairs, tmp_path, capsys, monkeypatch
):
    out = tmp_path / "sweep.json"
    assert ablate(trained_folder, pairs, "--out", str(out)) == 0
    whole, stored = capsys.readouterr().out, json.loads(out.read_text())
    rows = [line for line in whole.splitlines() if " head " in line and "layer" in line]
    assert len(rows) == 9
    effects = [float(row.split("head")[1].split()[1]) for row in rows]
    assert effects == sorted(effects, reverse=True)
    for row in rows:
        mean, low, high = map(float, re.findall(r"[+-]\d+\.\d+", row))
        assert low <= mean <= high
    assert max(effects) > 0.1  # without cross attention it cannot write a word backwards
    assert "after Holm's correction" in whole
    assert {f"{kind} importance 1" for kind in ("encoder_self", "decoder_self", "cross")} <= set(
        stored["losses"]
    )

    names = list(stored["losses"])
    kept = {name: stored["losses"][name] for name in names[: len(names) // 2]}
    out.write_text(json.dumps({**stored, "losses": kept}))
    made, losses = [], Sweep._losses
    monkeypatch.setattr(Sweep, "_losses", lambda self, *a: made.append(a) or losses(self, *a))
    assert ablate(trained_folder, pairs, "--out", str(out)) == 0
    assert len(made) == len(names) - len(kept)
    assert json.loads(out.read_text()) == stored
    assert capsys.readouterr().out == f"continues {out}\n{whole}"


def test_a_limit_is_not_taken_for_the_number_of_texts(trained_folder, pairs):
    scope, limit = models.load(trained_folder, device="cpu"), MIN_HELD_OUT_TEXTS - 1
    for choose in (held_out, common_texts):
        chosen = scope if choose is held_out else [scope]
        with pytest.raises(ValueError, match=f"needed, but the limit is {limit}$"):
            choose(chosen, [pairs], limit)


@pytest.mark.slow
def test_a_sweep_that_is_stopped_keeps_its_results(
    trained_folder, pairs, tmp_path, monkeypatch, capsys
):
    out, losses, made = tmp_path / "sweep.json", Sweep._losses, []

    def stopped(self, *given):
        if len(made) == 3:
            raise KeyboardInterrupt
        made.append(given)
        return losses(self, *given)

    monkeypatch.setattr(Sweep, "_losses", stopped)
    assert ablate(trained_folder, pairs, "--out", str(out)) == 130
    assert "stopped" in capsys.readouterr().err
    stored = json.loads(out.read_text())
    assert len(stored["losses"]) == 3
    for damaged in ({"of": stored["of"]}, stored | {"losses": {"own": ["0.5"]}}):
        out.write_text(json.dumps(damaged))
        assert ablate(trained_folder, pairs, "--out", str(out)) == 1
        assert "is damaged; remove it" in capsys.readouterr().err
    out.unlink()
    os.mkfifo(out)
    assert ablate(trained_folder, pairs, "--out", str(out)) == 1
    assert "not a regular file" in capsys.readouterr().err


def test_checkpoints_that_cannot_be_swept(trained_folder, checkpoint, pairs, tmp_path, capsys):
    out = tmp_path / "sweep.json"
    short = tmp_path / "short.tsv"
    short.write_text("ab\tba\n")
    assert ablate(trained_folder, short, "--out", str(out)) == 1
    assert "holds 1 text that" in capsys.readouterr().err
    out.write_text('{"of": {}, "losses": {}}')
    assert ablate(trained_folder, pairs, "--out", str(out)) == 1
    assert "holds another sweep" in capsys.readouterr().err
    add_to_record(checkpoint, held_out=[])
    assert cli.main(["ablate", str(checkpoint), "--device", "cpu"]) == 1
    assert "name files with --data" in capsys.readouterr().err
    add_to_record(checkpoint, held_out=[["ab", "ba"]])
    assert cli.main(["ablate", str(checkpoint), "--device", "cpu"]) == 1
    assert "the record holds 1 text that" in capsys.readouterr().err


def test_without_data_it_reads_the_texts_of_the_record(trained_folder, tmp_path, capsys):
    """The texts of the record are validation cases, with their answers."""
    out, held_out = tmp_path / "sweep.json", models.load(trained_folder).held_out
    assert held_out == [[word, word[::-1]] for word, _ in held_out]
    assert 8 < len(held_out) <= len(Reversal().held_out_words)
    flags = ["--orders", "1", "--device", "cpu", "--out", str(out)]
    assert cli.main(["ablate", str(trained_folder), *flags]) == 0
    assert f"on {len(held_out) // 2} texts" in capsys.readouterr().out


def test_the_data_of_a_language_model_are_split_as_in_training(tmp_path):
    """Only documents of the test split are swept; of another file, every line."""
    file, other = tmp_path / "lines.txt", tmp_path / "other.txt"
    file.write_text("".join(f"one two three four five six seven {i}\n" for i in range(1200)))
    other.write_text("seven six five\n" * 9)
    task = LanguageTask([file], tokens="characters", n_ctx=64, documents="lines")
    model = random_gpt(vocab_size=task.tokenizer.vocab_size, n_ctx=64)
    record = {"task": "language", "data": task.data()}
    scope = Scope(Checkpoint(tmp_path, model, task.tokenizer, record), torch.device("cpu"))
    swept = [text["text"].text for text in held_out(scope, [file], 400)]
    assert swept == [case.references[0] for case in task.held_out()]
    assert len(held_out(scope, [other], 400)) == 9


def test_a_question_without_its_context_is_no_text_to_sweep(tmp_path):
    """Its answer would lie on no token, and its loss would be NaN."""
    scope, file = models.load("bert-where", device="cpu"), tmp_path / "questions.txt"
    file.write_text("Where is Mary?\n" * 9)
    with pytest.raises(ValueError, match="holds 0 texts that bert-where can read"):
        held_out(scope, [file], 400)


@pytest.mark.parametrize(
    ("model", "name", "line", "texts"),
    [
        ("bert-where", "a.txt", f"{QUESTION}\t{STORY}\tgarden", (QUESTION, STORY)),
        ("gpt-sentiment", "a.txt", "A nice film. \tpositive", ("A nice film.",)),
        ("gpt-sentiment", "a.tsv", "A nice film.\tpositive", ("A nice film.",)),
        ("gpt-sentiment", "a.txt", "A nice film.", ("A nice film.",)),
        ("bert", "a.tsv", "A nice film.\tpositive", ("A nice film.",)),
        ("gpt", "a.txt", "A nice\tfilm.", ("A nice\tfilm.",)),
    ],
)
def test_the_columns_of_a_table_are_those_of_training(model, name, line, texts, tmp_path):
    scope, file = models.load(model, device="cpu"), tmp_path / name
    file.write_text(f"{line}\n" * MIN_HELD_OUT_TEXTS)
    rows = held_out(scope, [file], 400)
    assert rows == [scope.streams(*texts)] * MIN_HELD_OUT_TEXTS
    assert common_texts([scope], [file], 400) == [texts] * MIN_HELD_OUT_TEXTS


def test_both_texts_before_a_label_are_read(tmp_path):
    tokenizer = words_of("ab ba cd dc ef fe ga", "ag").for_classes()
    model = random_bert(vocab_size=tokenizer.vocab_size, head="classes", classes="yes,no")
    scope, file = as_scope(model, tokenizer, "pairs", task="classify"), tmp_path / "pairs.txt"
    for line, texts in (("ab\tba\tyes", ("ab", "ba")), ("ab\tyes", ("ab",)), ("ab", ("ab",))):
        file.write_text(f"{line}\n" * MIN_HELD_OUT_TEXTS)
        assert held_out(scope, [file], 400)[0] == scope.streams(*texts)
        (trace, *_) = runs(scope, common_texts([scope], [file], 400), scope)
        assert trace.streams == scope.streams(*texts)


def test_a_model_of_one_text_is_not_compared_on_two(tmp_path, monkeypatch):
    tokenizer = words_of("ab ba cd dc ef fe ga", "ag").for_classes()
    model = random_bert(vocab_size=tokenizer.vocab_size, head="classes", classes="yes,no")
    scope, file = as_scope(model, tokenizer, "pairs", task="classify"), tmp_path / "pairs.txt"
    file.write_text("ab\tba\tyes\n" * MIN_HELD_OUT_TEXTS)
    other = scope_of("gpt")
    monkeypatch.setattr(type(other.model), "fields", other.model.fields[:1])
    with pytest.raises(ValueError, match="of pairs have 2 fields, but gpt reads 1"):
        common_texts([scope, other], [file], 400)


def test_a_translation_has_a_loss_only_with_its_target():
    scope = scope_of("transformer")
    with pytest.raises(InputError, match="the target is missing; the loss is that of its tokens"):
        complete_streams(scope, ["abcd"])
    assert set(complete_streams(scope, ["abcd", "badc"])) == {"source", "target"}


def test_recorded_results_are_those_printed_and_belong_to_these_weights(
    checkpoint, tmp_path, capsys
):
    out = tmp_path / "sweep.json"
    flags = ["--orders", "2", "--device", "cpu", "--out", str(out), "--record"]
    assert cli.main(["ablate", str(checkpoint), *flags]) == 0
    printed = capsys.readouterr().out
    swept = SweepResult.of_record(models.load(checkpoint).training["ablation"])
    assert [f"head {one.head + 1} " in line and f"{one.effect.mean:+.4f}" in line for one, line in zip(
        swept.heads, [line for line in printed.splitlines() if " head " in line], strict=True
    )] == [True] * 9  # fmt: skip
    again = Sweep(
        (scope := models.load(checkpoint)),
        [scope.encode(*text) for text in scope.held_out],
        n_orders=2,
    )
    again.run(lambda done, of: None)
    assert again.swept() == swept
    weights = load_file(checkpoint / "model.safetensors")
    save_file({name: w * 1.01 for name, w in weights.items()}, checkpoint / "model.safetensors")
    add_to_record(checkpoint, checksums={})
    assert "ablation" not in models.load(checkpoint).training


def test_the_report_has_the_numbers_of_each_half_and_of_each_curve(capsys):
    """11 texts: 6 select, 5 are reported. A head without effect is marked by chance, with the same sign, in 1 of 40 sweeps."""
    scope, rng = scope_of("transformer"), Random(1)
    texts = [scope.encode(*text, "ab") for text in scope.held_out]
    sweep = Sweep(scope, texts, n_orders=3)
    sweep.losses = {name: [rng.random() for _ in some] for name, _, some in sweep.passes()}
    ablate_command._report(sweep)
    printed = capsys.readouterr().out
    swept = sweep.swept()
    assert len(texts) == 11
    assert "on 5 texts, 95 %" in printed
    assert "on the other 6 texts, with the same sign" in printed
    assert f"without it {len(swept.heads) / 40:.1f} would be marked by chance" in printed
    assert "the least important first, on 5 texts" in printed
    *_, lines = printed.partition("range)\n")

    def change(name: str) -> float:
        """Return the mean change of the reported texts' losses."""
        pairs = zip(sweep.losses[name], sweep.losses["own"][1::2], strict=True)
        return fmean(after - before for after, before in pairs)

    curves = [(kind, share) for kind, each in swept.curves.items() for share in each]
    for line, (kind, share) in zip(lines.splitlines(), curves, strict=True):
        off, n_heads = swept.n_off(kind, share)
        order = change(f"{kind} importance {share}")
        others = (
            sorted(change(f"{kind} random {i} {share}") for i in range(3))
            if share != "1"
            else [order] * 3
        )
        numbers = f"{order:+.3f} ({others[1]:+.3f}, {others[0]:+.3f} to {others[2]:+.3f})"
        assert line.split(maxsplit=4) == [kind, str(off), "of", str(n_heads), numbers]


def test_single_heads_of_layers_are_sorted_by_their_slope():
    """The slope is E|Δloss / Δs| of a head scaled by 1 + s, from two passes for each text."""
    model = random_gpt(vocab_size=LETTERS.vocab_size, n_heads=1, n_layers=3)
    scope = as_scope(model, LETTERS, "gpt")
    sweep = Sweep(scope, [scope.encode(*text) for text in scope.held_out], n_orders=1)
    step, slopes = 1e-2, {}
    for site, head in sweep.heads:
        sides = [[HeadScale(Where(site=site, heads=(head,)), factor=1 + s)] for s in (step, -step)]
        more, less = (
            torch.stack([sweep._losses([text], edits)[0] for text in sweep.texts[::2]])
            for edits in sides
        )
        slopes[site, head] = float((more - less).abs().sum()) / (2 * step)
    assert sweep._importance() == pytest.approx(slopes, rel=0.05, abs=1e-3)
    assert sweep.orders()["self"]["importance"] == sorted(slopes, key=slopes.__getitem__)


def test_a_head_that_no_answer_depends_on_has_no_importance():
    """In XLNet, nothing reads the last layer's content stream."""
    scope = scope_of("xlnet")
    sweep = Sweep(scope, [scope.encode(*text) for text in scope.held_out], n_orders=1)
    sweep.run(lambda done, of: None)
    assert len(sweep.swept().heads) == len(sweep.heads)
    unread = [name for name, grad in sweep._importance().items() if not grad]
    last = max(layer for _, layer in sweep.heads.values())
    assert {sweep.heads[name][1] for name in unread} == {last}
    effects = {(one.kind, one.layer, one.head): one.effect for one in sweep.results()}
    for name in unread:
        kind, layer = sweep.heads[name]
        assert effects[kind, layer, name[1]].mean == 0
