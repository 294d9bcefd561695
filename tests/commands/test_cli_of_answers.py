"""The commands with models that do not generate: train, evaluate, decode, inspect."""

import json
import random
import shutil
from pathlib import Path

import pytest
import torch

import models
from models import cli
from models.commands import decode
from models.tasks import open_task
from models.trace.outputs import TokenClasses
from models.training_record import check_record

SMALL = ["--d-model", "24", "--n-heads", "2", "--n-layers", "1", "--steps", "2", "--validate-every", "2", "--warmup", "5",
         "--device", "cpu"]  # fmt: skip


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "where"
    assert (
        cli.main(
            ["train", "span", *SMALL, "--batch-size", "3", "--n-snapshots", "2", "--out", str(out)]
        )
        == 0
    )
    return out


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng, file = random.Random(1), tmp_path_factory.mktemp("texts") / "book.txt"
    words = ["the", "cat", "dog", "sat", "ran", "on", "under", "a", "mat", "tree"]
    file.write_text(
        " ".join(" ".join(rng.choices(words, k=6)).capitalize() + "." for _ in range(500))
    )
    return file


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory, texts: Path) -> Path:
    out = tmp_path_factory.mktemp("runs") / "bert"
    assert (
        cli.main(
            [
                "train",
                "mlm",
                *SMALL,
                "--data",
                str(texts),
                "--vocab-size",
                "90",
                "--n-ctx",
                "32",
                "--out",
                str(out),
            ]
        )
        == 0
    )
    return out


def run(capsys, *arguments: str) -> tuple[int, str]:
    capsys.readouterr()
    status = cli.main([*arguments])
    found = capsys.readouterr()
    return status, found.out + found.err


@pytest.mark.slow
def test_a_trained_model_carries_its_scores_and_examples(where):
    record = json.loads((where / "training.json").read_text())
    check_record(record)
    assert (record["task"], record["step"], record["scores"]["cases"]) == ("span", 2, 2000)
    assert list(record["scores"]) == [
        "held-out answer exact match",
        "one-fact exact match",
        "two-fact exact match",
        "last place named exact match",
        "cases",
    ]
    assert all(len(example) == 2 for example in record["examples"])
    assert (
        models.load(where, device="cpu").training["scores"] == record["scores"]
    )  # measured on these weights


@pytest.mark.slow
def test_it_is_evaluated_again_and_so_is_each_snapshot(where, capsys):
    status, text = run(capsys, "evaluate", str(where), "--limit", "50", "--device", "cpu")
    scope = models.load(where, device="cpu")

    found = open_task("span", tokenizer=scope.tokenizer, n_ctx=scope.n_ctx).evaluate(
        scope.model, 50
    )
    assert status == 0
    lines = [line.rsplit(maxsplit=1) for line in text.splitlines()]
    assert [(name.strip(), value) for name, value in lines[:4]] == [
        (name, f"{value:,.3f}") for name, value in found.measures.items()
    ]
    assert "over 50 held-out cases" in text
    status, text = run(
        capsys, "evaluate", str(where), "--snapshots", "--limit", "20", "--device", "cpu"
    )
    assert status == 0
    steps = [line for line in text.splitlines() if ": answer exact match" in line]
    assert [line.split(":")[0] for line in steps] == ["step      0", "step      2"]
    status, text = run(capsys, "evaluate", str(where), "--by-length", "--device", "cpu")
    assert (status, "--test and --by-length apply" in text) == (1, True)
    status, text = run(
        capsys, "evaluate", str(where), "--record", "--limit", "3", "--device", "cpu"
    )
    assert (status, "remove --limit" in text) == (1, True)


@pytest.mark.slow
def test_recorded_snapshots_name_the_weights_they_were_measured_on(where, tmp_path, capsys):

    copy = tmp_path / "where"
    shutil.copytree(where, copy)
    (copy / "training.json").write_text(
        json.dumps(json.loads((copy / "training.json").read_text()) | {"scores": {}})
    )
    assert cli.main(["evaluate", str(copy), "--record", "--device", "cpu"]) == 0
    assert (
        json.loads((copy / "training.json").read_text())["scores"]
        == json.loads((where / "training.json").read_text())["scores"]
    )


def test_a_question_is_answered(where, capsys):
    story = "Mary went to the garden. John took the milk."
    status, text = run(capsys, "decode", str(where), "Where is Mary?", story, "--device", "cpu")
    assert (status, text.strip()) == (
        0,
        models.load(where, device="cpu").run("Where is Mary?", story).output,
    )
    status, text = run(capsys, "decode", str(where), "Where is Mary?", "--device", "cpu")
    assert (status, "the context is missing; this model needs question and context" in text) == (
        1,
        True,
    )


def test_masks_are_filled_and_a_pair_is_classified(bert, capsys):
    scope = models.load(bert, device="cpu")
    status, text = run(capsys, "decode", str(bert), "The cat [MASK] on a mat.", "--device", "cpu")
    assert (status, text.strip()) == (0, scope.run("The cat [MASK] on a mat.").output)
    status, text = run(capsys, "decode", str(bert), "The cat sat.", "A dog ran.", "--device", "cpu")
    p = scope.run("The cat sat.", "A dog ran.").outputs["next sentence"].probabilities.tolist()
    assert (
        text.splitlines()[-1]
        == f"next sentence: next {100 * p[0]:.1f} %, not next {100 * p[1]:.1f} %"
    )


def test_a_masked_model_reports_its_training_data_and_scores(bert, texts, capsys):
    record = json.loads((bert / "training.json").read_text())
    assert list(record["scores"]) == [
        "held-out masked accuracy",
        "masked perplexity",
        "unigram masked accuracy",
        "unigram masked perplexity",
        "next-sentence accuracy",
        "always-the-same next-sentence accuracy",
        "cases",
    ]
    status, text = run(capsys, "evaluate", str(bert), "--data", str(texts), "--device", "cpu")
    assert status == 0
    assert "note: this is not the data" not in text
    assert f"{record['scores']['masked perplexity']:,.3f}" in text
    status, text = run(capsys, "inspect", str(bert))
    assert (status, "mlm" in text, "head               pretraining" in text) == (0, True, True)


def test_a_labelled_token_has_the_probability_of_its_own_label():
    logits = torch.tensor([[0.7, 0.2, 0.1], [0.25, 0.25, 0.5]]).log()
    output = TokenClasses("text", ("noun", "verb", "other"), logits)
    assert list(decode._label_lines(output, ["a cat", "sat"])) == [
        "a cat            noun (70.0 %)",
        "sat              other (50.0 %)",
    ]


def test_one_text_is_continued(capsys):
    status, text = run(capsys, "decode", "gpt", "Once", "upon", "--device", "cpu")
    assert (status, "gpt takes one prompt, got 2" in text) == (1, True)


@pytest.mark.parametrize(
    ("model", "texts", "why"),
    [
        ("gpt-sentiment", ["nice", "film"], "gpt-sentiment takes text, got 2 inputs"),
        ("bert-where", ["a", "b", "c"], "bert-where takes question and context, got 3 inputs"),
        # its third field holds positions, which are not given as a text
        ("bert", ["a", "b", "c"], "bert takes text and second text, got 3 inputs"),
    ],
)
def test_more_texts_than_a_model_reads_are_refused(model, texts, why, capsys):
    assert run(capsys, "decode", model, *texts, "--device", "cpu") == (1, f"attnscope: {why}\n")


def test_decoding_methods_are_refused_by_a_model_that_does_not_generate(capsys):
    command = ["decode", "bert-where", "Where is Tom?", "Tom went to the garden.", "--how"]
    assert cli.main([*command, "beam"]) == 1
    refusal = "--how does not apply to bert-where: it does not generate text"
    assert refusal in capsys.readouterr().err
    assert cli.main([*command, "greedy"]) == 0
