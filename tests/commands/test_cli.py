"""The command line: train, decode, evaluate, inspect, Ctrl-C, and one line for every error."""

import json
import os
import signal
from pathlib import Path

import pytest
import torch

import models
from models.cli import main
from models.commands import arguments
from models.commands import train as train_command
from models.held_out_texts import held_out
from models.tasks.date_formats import training_examples
from models.tasks.dates import DatesTask
from models.tasks.translation import TranslationTask
from models.training.recipes import plan_for
from models.training.trainer import Trainer

TINY = "--d-model 21 --n-heads 3 --d-ff 23 --n-encoder-layers 1 --n-decoder-layers 1 --batch-size 5 --device cpu".split()
RUN = [*TINY, "--validate-every", "3", "--score-cases", "2", "--save-every", "2"]


@pytest.fixture(autouse=True)
def few_cases(monkeypatch):
    """Score few cases: an untrained model, which never generates </s>, would take half a minute for the whole test split."""
    held_out, validation = DatesTask.held_out, DatesTask.validation
    monkeypatch.setattr(
        DatesTask, "held_out", lambda self, n=None, **how: held_out(self, n or 11, **how)
    )
    monkeypatch.setattr(DatesTask, "validation", lambda self: validation(self)[:53])


@pytest.fixture
def folder(tmp_path) -> Path:
    """A checkpoint of the task dates after five steps."""
    assert main(["train", "dates", "--out", str(tmp_path / "run"), "--steps", "5", *RUN]) == 0
    return tmp_path / "run"


def test_train_then_decode_evaluate_inspect(tmp_path, capsys):
    folder = tmp_path / "run"
    assert main(["train", "dates", "--out", str(folder), "--steps", "5", *RUN]) == 0
    out = capsys.readouterr()
    task, said = out.out.splitlines()[0].split(": ")
    assert task == "dates, transformer"
    settings = dict(setting.rsplit(" ", 1) for setting in said.split(", "))
    config = json.loads((folder / "config.json").read_text())
    sizes = {name: str(config[name]) for name in settings if name in config}
    assert {"d_model", "n_heads", "d_ff", "n_ctx"} <= sizes.keys()
    assert settings | sizes | {"steps": "5", "batch_size": "5"} == settings
    assert "step 3: validation loss" in out.out
    assert f"over 11 held-out cases\ncheckpoint in {folder}" in out.out
    assert "5/5" in out.err  # the progress bar
    for part in ("loss=", "labels_s=", "step/s"):
        assert part in out.err
    record = json.loads((folder / "training.json").read_text())
    assert record["command"] == f"attnscope train dates --out {folder} --steps 5 {' '.join(RUN)}"
    assert record["recipe"]["steps"] == record["step"] == 5
    assert record["scores"].keys() == {"held-out exact match", "cases"}
    assert record["scores"]["cases"] == 11

    for how in ([], ["--how", "beam"], ["--how", "sample", "--seed", "3"]):
        assert main(["decode", str(folder), "March 5, 1998", *how]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 1

    assert main(["evaluate", str(folder), "--limit", "7", "--device", "cpu"]) == 0
    out = capsys.readouterr()
    assert (
        out.out
        == f"exact match {record['scores']['held-out exact match']:.2f} over 7 held-out cases\n"
    )
    assert "not the data" not in out.err
    assert main(["evaluate", str(folder), "--limit", "2", "--snapshots", "--device", "cpu"]) == 0
    steps = [line.split(": exact match ") for line in capsys.readouterr().out.splitlines()]
    assert [step.split() for step, _ in steps] == [["step", str(n)] for n in (0, 1, 2, 3, 5)]
    assert all(score.endswith(" over 2 held-out cases") for _, score in steps)

    assert sum(group["cases"] for group in record["by_length"]) == 11
    kept = (folder / "training.json").read_text()
    (folder / "training.json").write_text(
        json.dumps(record | {"scores": {}, "by_length": [], "held_out": []}, indent=1)
    )
    assert main(["evaluate", str(folder), "--by-length", "--record"]) == 0
    assert json.loads((folder / "training.json").read_text()) == json.loads(kept)
    lines = capsys.readouterr().out.splitlines()[1:]
    assert lines == [
        f"  {g['least']:2}-{g['most']:2} words  exact match {g['score']:6.2f}  {g['cases']:5} cases"
        for g in record["by_length"]
    ]

    assert main(["inspect", str(folder)]) == 0
    out = capsys.readouterr().out
    model = torch.load(folder / "state.pt", weights_only=True)["model"]
    assert f"run: dates, {sum(v.numel() for v in model.values()):,} parameters" in out
    shown = {"d_ff": "23", "step": "5", "device": "cpu", "snapshots": "0, 1, 2, 3, 5"}
    for line in [*(f"  {name:18} {value}" for name, value in shown.items()), "5.0 % of the dates"]:
        assert line in out
    rows = [row for row in record["curve"] if "validation loss" in row]
    assert out.splitlines()[-len(rows) :] == [
        "  " + "  ".join(f"{name} {value}" for name, value in row.items()) for row in rows
    ]
    for name in ("command", "averaged_steps", "training_seconds", "data", "licence", "scores"):
        assert f"  {name:18} {record[name]}\n" in out
    for name, weights in model.items():
        assert (
            f"  {name:48} {' × '.join(map(str, weights.shape)):>12} {weights.numel():>10,}" in out
        )


def test_a_record_without_a_later_setting_still_names_its_data(capsys):
    """The strings of reverse-unmasked were drawn before their length was a setting."""
    assert main(["evaluate", "reverse-unmasked", "--limit", "2", "--device", "cpu"]) == 0
    assert "not the data" not in capsys.readouterr().err
    scope = models.load("reverse-unmasked")
    assert len(held_out(scope, None, 200)) == 200 > len(scope.held_out)


@pytest.mark.slow
def test_sampling_differs_by_seed_and_is_the_same_for_one(folder, capsys):
    texts = []
    for seed in ("3", "3", "4"):
        capsys.readouterr()
        main(["decode", str(folder), "March 5", "--how", "sample", "--seed", seed])
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1, 10**30])
def test_a_seed_out_of_range_is_refused_at_once(seed, capsys):
    for words in (
        ["decode", "gpt", "Once"],
        ["ablate", "gpt"],
        ["compare", "gpt", "gpt"],
        ["survey", "recovery", "eng-fra"],
        ["train", "dates"],
    ):
        with pytest.raises(SystemExit):
            main([*words, f"--seed={seed}"])
        assert "must be from -9223372036854775808 to 9223372036854775807" in capsys.readouterr().err


def test_translation_from_a_file_to_a_score(tmp_path, capsys):
    data = tmp_path / "pairs.tsv"
    data.write_text("".join(f"{e.source}\t{e.target}\n" for e in training_examples(1, 1, 211)))
    small = [
        *TINY[:-4],
        "--device",
        "cpu",
        "--max-tokens",
        "97",
        "--vocab-size",
        "150",
        "--licence",
        "public domain",
    ]
    command = [
        "train",
        "translation",
        "--data",
        str(data),
        "--out",
        str(tmp_path / "run"),
        "--steps",
        "2",
        *small,
    ]
    assert main([*command, "--score-cases", "0", "--n-ctx", "61"]) == 0
    record = json.loads((tmp_path / "run" / "training.json").read_text())
    assert record["licence"] == "public domain"
    assert record["data"]["file"] == "pairs.tsv"
    assert record["scores"].keys() == {"held-out BLEU", "cases"}
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "run"), "--data", str(data)]) == 0
    out = capsys.readouterr()
    assert out.out.startswith("BLEU ")
    assert "not the data" not in out.err
    renamed = data.rename(tmp_path / "renamed.tsv")
    assert main(["evaluate", str(tmp_path / "run"), "--data", str(renamed)]) == 0
    assert "not the data" not in capsys.readouterr().err
    renamed.rename(data)
    data.write_text(data.read_text() + "x\ty\n")
    assert main(["evaluate", str(tmp_path / "run"), "--data", str(data)]) == 0
    assert "note: this is not the data the checkpoint was trained on" in capsys.readouterr().err
    assert main(["evaluate", str(tmp_path / "run"), "--data", str(data), "--record"]) == 1
    assert "--record needs the data" in capsys.readouterr().err
    assert main(["evaluate", str(tmp_path / "run")]) == 1
    assert (
        "translation needs a tab-separated file of sentence pairs (--data FILE)"
        in capsys.readouterr().err
    )


def test_validation_and_test_files_of_the_user(tmp_path, capsys):
    """Their pairs are removed from training, which is reported; the score is over the test file, with sacrebleu's signature."""
    rows = [(e.source, e.target) for e in training_examples(1, 1, 223)]
    data, test, sides = (
        tmp_path / "pairs.tsv",
        tmp_path / "test.tsv",
        (tmp_path / "valid.a", tmp_path / "valid.b"),
    )
    data.write_text("".join(f"{s}\t{t}\n" for s, t in rows))
    test.write_text("".join(f"{s.upper()} !\t{t}\n" for s, t in rows[:7]))
    for n, side in enumerate(sides):
        side.write_text("".join(f"{row[n]}\n" for row in rows[7:10]))
    command = [
        "train",
        "translation",
        "--data",
        str(data),
        "--valid",
        *map(str, sides),
        "--test",
        str(test),
        "--languages",
        "en",
        "fr",
        "--steps",
        "2",
    ]
    small = [
        *TINY[:-4],
        "--device",
        "cpu",
        "--vocab-size",
        "150",
        "--score-cases",
        "0",
        "--n-ctx",
        "61",
    ]
    assert main([*command, *small, "--out", str(tmp_path / "run")]) == 0
    out = capsys.readouterr().out
    assert "213 pairs to train on, 3 to validate on, 7 to test on\n" in out
    assert "of --valid or --test: 10\n" in out
    assert "left out" not in out
    record = json.loads((tmp_path / "run" / "training.json").read_text())
    assert record["data"]["pairs"] == {"train": 213, "validation": 3, "test": 7}
    assert record["languages"] == ["en", "fr"]
    assert record["scores"]["cases"] == 7
    signature = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:"
    assert record["signature"].startswith(signature)
    assert f"sacrebleu's signature: {record['signature']}" in out

    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "run"), "--test", str(test), "--record"]) == 0
    out = capsys.readouterr()
    lines = out.out.splitlines()
    assert lines[0] == f"BLEU {record['scores']['held-out BLEU']:.2f} over 7 held-out cases"
    assert lines[1].startswith(f"sacrebleu's signature: {signature}")
    assert "note" not in out.err
    assert (
        main(["evaluate", str(tmp_path / "run"), "--test", *map(str, sides), "--limit", "2"]) == 0
    )
    out = capsys.readouterr()
    assert "over 2 held-out cases" in out.out
    assert "these pairs were not named at training time" in out.err
    assert main(["evaluate", str(tmp_path / "run"), "--test", str(data), "--record"]) == 1
    assert "--record needs the test pairs" in capsys.readouterr().err


def test_the_parts_of_a_running_text_are_printed_by_their_use(capsys):
    sizes = {"train": 1009, "validation": 11, "test": 103}
    data = {
        "documents": sizes,
        "characters": {name: 7 * n for name, n in sizes.items()},
        "left out": 3,
    }
    train_command._print_texts(plan_for("language", "gpt"), data)
    printed = capsys.readouterr().out
    assert printed.startswith("7,861 characters of text: ")
    for said in (
        "1,009 documents (7,063 characters) to train on",
        "11 documents (77 characters) to validate on",
        "103 documents (721 characters) to test on",
        "\nleft out of validation and test, as repeats of a training or test document: 3\n",
    ):
        assert said in printed


def test_pairs_that_are_too_long_are_not_counted_among_those_to_train_on(tmp_path, capsys):
    data = tmp_path / "pairs.tsv"
    rows = [(e.source, e.target) for e in training_examples(1, 1, 211)]
    data.write_text("".join(f"{s}\t{t}\n" for s, t in rows))
    task = TranslationTask(data, vocab_size=150, max_length=14)
    ids = [task.tokenizer.encode_many(pair) for pair in task._split["train"]]
    n_short = sum(max(map(len, pair)) < 14 for pair in ids)
    assert 0 < n_short < len(ids)
    train_command._print_pairs(len(rows), plan_for("translation", "transformer"), task)
    printed = capsys.readouterr().out
    assert f"\n{n_short} pairs to train on, " in printed
    assert f"\nnot trained on, as a side has 14 tokens or more: {len(ids) - n_short}\n" in printed


@pytest.mark.parametrize(("few", "wanted"), [
    (212, {"n_encoder_layers": 4, "dropout": 0.3, "init": "normal", "warmup": 2000, "learning_rate": 1.5, "max_tokens": 97}),
    (211, {"n_encoder_layers": 3, "warmup": 1500, "learning_rate": 1.0, "max_tokens": 97}),
])  # fmt: skip
def test_sizes_and_recipe_follow_the_number_of_pairs_unless_flags_override_and_both_are_printed(
    tmp_path, monkeypatch, capsys, few, wanted
):
    """The printed values are those that config.json and training.json hold afterwards."""
    monkeypatch.setattr("models.training.recipes.FEW_PAIRS", few)
    data = tmp_path / "pairs.tsv"
    data.write_text("".join(f"{e.source}\t{e.target}\n" for e in training_examples(1, 1, 211)))
    flags = "--d-model 22 --n-heads 2 --d-ff 23 --max-tokens 97 --vocab-size 150 --score-cases 0 --n-ctx 61 --device cpu".split()
    command = [
        "train",
        "translation",
        "--data",
        str(data),
        "--out",
        str(tmp_path / "run"),
        "--steps",
        "1",
    ]
    assert main([*command, *flags]) == 0
    count, said = capsys.readouterr().out.splitlines()[0].split(" pairs: ")
    assert count == "211"
    said = dict(setting.split(" ") for setting in said.split(", "))
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    recipe = json.loads((tmp_path / "run" / "training.json").read_text())["recipe"]
    held = config | recipe | {"max_tokens": 97}
    assert {name: value.replace(",", "") for name, value in said.items()} == {
        name: str(held[name]) for name in said
    }
    assert wanted.items() | {"d_model": 22, "d_ff": 23, "steps": 1}.items() <= held.items()
    assert wanted.keys() <= said.keys()


def test_a_run_that_stops_early_prints_so_and_warns(tmp_path, monkeypatch, capsys):
    losses = iter([3.0, 4.0, 4.0, 4.0, 2.0])
    entropy = {"cross-attention entropy": 0.9876}
    monkeypatch.setattr(
        Trainer, "_validate", lambda self: {"validation loss": next(losses)} | entropy
    )
    command = [
        "train",
        "dates",
        "--out",
        str(tmp_path / "run"),
        "--steps",
        "9",
        *TINY,
        "--validate-every",
        "1",
        "--patience",
        "3",
    ]
    assert main([*command, "--warmup", "2"]) == 0
    out = capsys.readouterr().out
    assert "step 4: validation loss 4.000, cross-attention entropy 0.988" in out
    assert "warning: cross-attention is flat (0.988 of the largest entropy)" in out
    assert out.index("step 3:") < out.index(
        "warning: cross-attention is flat"
    )  # not during the warm-up
    assert "warning: the validation loss has not been below 3.000 since step 1" in out
    assert "stopped early at step 4; the weights of step 1 are kept" in out
    assert json.loads((tmp_path / "run" / "training.json").read_text())["step"] == 1


SMALL = {
    "rnn": ("seq2seq", ["--d-model", "11", "--d-hidden", "7"]),
    "bahdanau": (
        "seq2seq",
        [
            "--d-model",
            "11",
            "--d-hidden",
            "7",
            "--d-align",
            "5",
            "--cell",
            "tanh",
            "--no-bidirectional",
        ],
    ),
    "attention": (
        "attention only",
        ["--d-model", "21", "--n-heads", "3", "--n-self-layers", "1", "--similarity", "cosine"],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("model", SMALL)
def test_every_model_trains_and_is_inspected(tmp_path, capsys, model):
    architecture, sizes = SMALL[model]
    command = [
        "train",
        "dates",
        "--model",
        model,
        *sizes,
        "--batch-size",
        "5",
        "--steps",
        "2",
        "--score-cases",
        "0",
    ]
    assert main([*command, "--out", str(tmp_path / "run"), "--device", "cpu"]) == 0
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["architecture"] == architecture
    for flag, value in zip(sizes[::2], sizes[1::2], strict=False):
        assert str(config[flag[2:].replace("-", "_")]) == value
    assert main(["inspect", str(tmp_path / "run")]) == 0
    assert "d_model            " in capsys.readouterr().out


def test_a_vocabulary_is_taken_from_another_checkpoint(tmp_path):
    data = tmp_path / "pairs.tsv"
    data.write_text("".join(f"{e.source}\t{e.target}\n" for e in training_examples(1, 1, 211)))
    rest = [
        "--data",
        str(data),
        "--steps",
        "1",
        "--score-cases",
        "0",
        *TINY[:-4],
        "--device",
        "cpu",
    ]
    assert (
        main(
            ["train", "translation", "--out", str(tmp_path / "first"), "--vocab-size", "150", *rest]
        )
        == 0
    )
    data.write_text(data.read_text().replace("19", "20"))
    small = ["--model", "bahdanau", "--d-model", "9", "--d-hidden", "5"]
    rest = [*rest[:6], *small, "--vocabulary", str(tmp_path / "first")]
    assert main(["train", "translation", "--out", str(tmp_path / "second"), *rest]) == 0
    assert (tmp_path / "second" / "tokenizer.json").read_bytes() == (
        tmp_path / "first" / "tokenizer.json"
    ).read_bytes()


def interrupt_in_step(monkeypatch, wanted: int, times: int = 1) -> None:
    """Press Ctrl-C in the middle of the step after `wanted` steps."""
    update = Trainer._update

    def interrupted(self, *args):
        if self.step == wanted:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)
        return update(self, *args)

    monkeypatch.setattr(Trainer, "_update", interrupted)


def test_ctrl_c_ends_the_step_saves_and_the_run_resumes_unchanged(tmp_path, monkeypatch, capsys):
    handler = signal.getsignal(signal.SIGINT)
    whole, cut = (
        ["train", "dates", "--out", str(tmp_path / name), "--steps", "7", *RUN]
        for name in ("whole", "cut")
    )
    assert main(whole) == 0
    with monkeypatch.context() as patch:
        interrupt_in_step(patch, 4)
        assert main(cut) == 130
    assert "stopped at step 5; --resume continues" in capsys.readouterr().out
    assert signal.getsignal(signal.SIGINT) is handler
    assert main([*cut, "--resume"]) == 0
    assert "resumed at step 5" in capsys.readouterr().out
    for folder, command in ((tmp_path / "whole", whole), (tmp_path / "cut", cut)):
        record = json.loads((folder / "training.json").read_text())
        assert record["command"] == f"attnscope {' '.join(command)}"
    for name in ("model.safetensors", "snapshots/000007.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()


@pytest.mark.slow
def test_a_second_ctrl_c_stops_at_once_and_keeps_the_last_state(tmp_path, monkeypatch):
    command = ["train", "dates", "--out", str(tmp_path), "--steps", "7", *RUN]
    with monkeypatch.context() as patch:
        interrupt_in_step(patch, 5, times=2)
        assert main(command) == 130
    assert torch.load(tmp_path / "state.pt", weights_only=True)["step"] == 4
    assert main([*command, "--resume"]) == 0


ERRORS = {
    "no checkpoint": (
        ["decode", "nowhere", "x"],
        "nowhere: neither a folder nor a shipped checkpoint",
    ),
    "empty text": (["decode", "{folder}", "  "], "the source is empty; type some text"),
    "long text": (
        ["decode", "{folder}", "x" * 2000],
        "the source has 2,000 characters; this model reads at most 13 tokens",
    ),
    "no such task": (
        ["evaluate", "{folder}"],
        "task must be one of",
    ),
    "no language": (
        ["train", "dates", "--languages", "English"],
        "--languages takes ISO 639 codes such as en and fr, not 'English'",
    ),
    "no data": (["train", "translation"], "translation needs a tab-separated file"),
    "missing data": (
        ["train", "translation", "--data", "nowhere.tsv"],
        "nowhere.tsv: no such file",
    ),
    "data for dates": (
        ["train", "dates", "--data", "x.tsv"],
        "dates are generated; they take no data file",
    ),
    "test pairs for dates": (
        ["train", "dates", "--test", "x.tsv"],
        "dates are generated; they take no data file",
    ),
    "three files": (
        ["train", "translation", "--data", "a", "b", "c"],
        "or two aligned ones, got 3 files",
    ),
    "missing test file": (
        ["train", "translation", "--data", "dates.tsv", "--test", "no.tsv"],
        "no.tsv: no such file",
    ),
    "test and data": (
        ["evaluate", "eng-fra", "--test", "a", "--data", "b"],
        "--test applies to translation models",
    ),
    "test of dates": (["evaluate", "dates", "--test", "a"], "--test applies to translation models"),
    "heads": (
        ["train", "dates", "--n-heads", "7"],
        "d_model (64) must be divisible by n_heads (7)",
    ),
    "no heads": (
        ["train", "dates", "--n-heads", "0"],
        "d_model (64) must be divisible by n_heads (0)",
    ),
    "no steps": (["train", "dates", "--steps", "0"], "steps must be at least 1, not 0"),
    "no warm-up": (["train", "dates", "--warmup", "0"], "warmup must be at least 1, not 0"),
    "norm": (["train", "dates", "--norm", "rms"], "norm must be post or pre, not 'rms'"),
    "short context": (
        ["train", "dates", *TINY, "--out", "{new}", "--n-ctx", "7"],
        "this model reads at most 7 (n_ctx)",
    ),
    "foreign setting": (
        ["train", "dates", "--max-tokens", "9"],
        "--max-tokens does not apply to the task dates",
    ),
    "foreign size": (
        ["train", "dates", "--model", "rnn", "--n-heads", "2"],
        "--n-heads does not apply to the model rnn",
    ),
    "no plan": (
        ["train", "translation", "--model", "attention"],
        "model attention is not available for the task translation",
    ),
    "vocabulary": (
        ["train", "dates", "--vocabulary", "dates"],
        "--vocabulary does not apply to the task dates",
    ),
    **{
        f"{other} beside {one}": (
            ["train", "language", one, "gpt", other, value, "--data", "{new}"],
            f"{other} does not apply with {one}, whose tokenizer is used",
        )
        for one, other, value in (
            ("--vocabulary", "--vocab-size", "99"),
            ("--from", "--vocab-size", "99"),
            ("--from", "--tokens", "characters"),
            ("--from", "--vocabulary", "gpt"),
        )
    },
    "cell": (
        ["train", "dates", "--model", "rnn", "--cell", "lstm"],
        "cell must be tanh or gru, not 'lstm'",
    ),
    "record": (["evaluate", "dates", "--limit", "3", "--record"], "remove --limit"),
    "device": (
        ["decode", "{folder}", "abc", "--device", "abacus"],
        "device 'abacus' cannot be used",
    ),
    "nothing to resume": (
        ["train", "dates", *TINY, "--out", "{new}", "--resume"],
        "nothing to resume",
    ),
    "a run is there": (
        ["train", "dates", *TINY, "--out", "{folder}"],
        "holds a run (state.pt); --resume",
    ),
    "other settings": (
        ["train", "dates", *TINY, "--out", "{folder}", "--resume"],
        "keep the settings",
    ),
    "a wrong flag takes nothing away": (
        ["train", "dates", "--out", "{folder}", "--overwrite", "--n-heads", "7"],
        "(7)",
    ),
    "nothing to seal": (["seal", "nowhere"], "nowhere: neither a folder nor a shipped checkpoint"),
    "no app here": ([], "the app needs the command attnscope"),
}


@pytest.mark.slow(except_one_in=5)
@pytest.mark.parametrize(("command", "message"), ERRORS.values(), ids=ERRORS)
def test_an_error_is_one_line_and_status_1(
    checkpoint, tmp_path, monkeypatch, capsys, command, message
):
    monkeypatch.chdir(tmp_path)
    Path("dates.tsv").write_text("5 March\t03-05\n")
    command = [part.format(folder=checkpoint, new=tmp_path / "new") for part in command]
    assert main(command) == 1
    err = capsys.readouterr().err
    last = err.rpartition("\r")[2].splitlines()[-1]  # after the progress bar, if one was drawn
    assert last.startswith("attnscope: ")
    assert message in last
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["evaluate", "x", "--limit", "0"], "must be at least 1, not 0"),
        (["evaluate", "x", "--limit", "many"], "invalid"),
        (["train", "poems"], "invalid choice: 'poems'"),
        (["train", "dates", "--steps", "many"], "invalid int value: 'many'"),
        (["train", "dates", "--over"], "unrecognized arguments: --over"),  # the record holds flags
        (["decode", "x"], "required: text"),
        (["train", "dates", "--resume", "--overwrite"], "not allowed with argument --resume"),
    ],
)
def test_wrong_arguments_are_explained(capsys, command, message):
    with pytest.raises(SystemExit) as stop:
        main(command)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_a_full_disk_while_training_keeps_the_last_state(tmp_path, monkeypatch, capsys):
    command = ["train", "dates", "--out", str(tmp_path), "--steps", "5", *RUN]
    save_state, saved = Trainer.save_state, []

    def full(self):
        if self.step == 4:
            raise OSError(28, "No space left on device")
        saved.append(self.step)
        save_state(self)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "save_state", full)
        assert main(command) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert saved == [2]
    assert main([*command, "--resume"]) == 0


def test_ctrl_c_elsewhere_is_no_traceback(monkeypatch, capsys):
    def pressed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(arguments, "load", pressed)
    assert main(["inspect", "dates"]) == 130
    assert capsys.readouterr() == ("", "attnscope: stopped\n")


def test_the_app_is_opened_if_it_is_installed():
    opened = []
    assert (
        main(
            ["--port", "8999", "--no-browser"], open_app=lambda options: opened.append(options) or 0
        )
        == 0
    )
    assert (opened[0].port, opened[0].no_browser, opened[0].device) == (8999, True, None)


def test_every_setting_of_a_run_is_a_flag(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = capsys.readouterr().out
    for flag in (
        "--steps",
        "--resume",
        "--device",
        "--data",
        "--out",
        "--no-snapshots",
        "--label-smoothing",
        "--n-ctx",
    ):
        assert flag in text
