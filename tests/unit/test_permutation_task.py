"""The task of factorisation orders: rows, orders, predicted tokens, scores; and its commands."""

import json
import math
import random
from collections import Counter
from itertools import islice, pairwise
from pathlib import Path

import pytest
import torch
from small import random_xlnet

import models
from models import cli
from models.architectures.xlnet import XLNetConfig
from models.tasks import DataError, open_task
from models.tasks.permutation import IN_TWO, PermutationTask
from models.training.batches import NO_LABEL, Ordered
from models.training.objectives import LABEL_BATCH, tokens_in_order
from models.training.recipe import Recipe
from models.training.trainer import Trainer

WORDS = [f"{a}{b}{c}" for a in "bdgkm" for b in "aeiou" for c in "lnrst"]
N_CTX = 37
SIZES = {"d_model": 24, "n_heads": 2, "n_layers": 1, "n_ctx": N_CTX, "dropout": 0.0}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Lines of 2 to 9 words, and paragraphs, many of them longer than a row."""
    folder, rng = tmp_path_factory.mktemp("texts"), random.Random(3)
    line = lambda least, most: " ".join(rng.choices(WORDS, k=rng.randint(least, most)))  # noqa: E731
    book, table = folder / "book.txt", folder / "lines.tsv"
    book.write_text("\n\n".join(line(20, 80) for _ in range(90)))
    table.write_text("\n".join(f"{line(2, 9)}\tignored" for _ in range(400)))
    return [book, table]


@pytest.fixture(scope="module")
def task(files: list[Path]) -> PermutationTask:
    return open_task("permutation", files, vocab_size=600, n_ctx=N_CTX, max_tokens=300)


def epoch(task: PermutationTask, seed: int = 1) -> list[Ordered]:
    n, rows = sum(map(len, task._train)), []
    batches = task.batches(seed)
    while sum(len(ids) for ids, *_ in rows) < n:
        rows += next(batches)
    return rows


def test_an_epoch_holds_every_token_of_the_training_documents_once(task):
    """However documents are cut and joined, rows are full and no longer than the context."""
    rows = epoch(task)
    counted = Counter(token for ids, *_ in rows for token in ids)
    assert counted == Counter(
        i for ids in task.tokenizer.encode_many(task._split["train"]) for i in ids
    )
    assert max(len(ids) for ids, *_ in rows) == N_CTX
    assert all(
        len(ids) == len(ranks) == len(segments) == len(labels)
        for ids, ranks, segments, labels in rows
    )
    for batch in islice(task.batches(1), 30):
        assert len(batch) * max(len(ids) for ids, *_ in batch) <= 300


@pytest.mark.slow
def test_every_row_has_a_whole_order_drawn_anew(task):
    """The order is a permutation; over many rows each position is early as often as late; other epochs and seeds draw other orders."""
    rows = [row for row in epoch(task) if len(row[0]) == 8]
    assert all(sorted(ranks) == list(range(8)) for _, ranks, _, _ in rows)
    assert len({tuple(ranks) for _, ranks, _, _ in rows}) == len(rows) > 20
    mean = torch.tensor([ranks for _, ranks, _, _ in rows]).double().mean(0)
    assert (mean - 3.5).abs().max() < 1.5
    first, again, other = (next(iter(task.batches(seed))) for seed in (5, 5, 6))
    assert first == again != other


def test_two_documents_of_a_row_are_neighbours_in_segments_of_their_own(task):
    documents = task.tokenizer.encode_many(task._of("train"))
    follows = {tuple(first): tuple(second) for first, second in pairwise(documents)}
    both = [(ids, segments) for ids, _, segments, _ in epoch(task) if 1 in segments]
    share = 2 * len(both) / len(documents)
    assert IN_TWO < share < 3 * IN_TWO  # both documents of each pair are used
    for ids, segments in both:
        start = segments.index(1)
        assert segments == [0] * start + [1] * (len(ids) - start)
        assert follows[tuple(ids[:start])] == tuple(ids[start:])


@pytest.mark.parametrize(("k", "predicted"), [(1, 13), (2, 6), (3, 4), (6, 2), (40, 1)])
def test_the_last_of_an_order_is_predicted(task, files, k, predicted):
    """These are the last 1/K of the thirteen tokens in the order, at least one, and no others."""
    short = PermutationTask(files, predict_last=k, tokenizer=task.tokenizer, n_ctx=N_CTX)
    ids, ranks, _, labels = short._ordered(list(range(20, 33)), [], random.Random(4))
    asked = [i for i, label in enumerate(labels) if label != NO_LABEL]
    assert len(asked) == predicted
    assert sorted(ranks[i] for i in asked) == list(range(13 - predicted, 13))
    assert [labels[i] for i in asked] == [ids[i] for i in asked]
    drawn = list(range(13))
    random.Random(4).shuffle(drawn)
    assert [ranks[position] for position in drawn] == list(
        range(13)
    )  # the first drawn is the first predicted


def test_an_order_from_left_to_right_on_request(task, files):
    straight = PermutationTask(files, order="left to right", tokenizer=task.tokenizer, n_ctx=N_CTX)
    assert all(ranks == list(range(len(ranks))) for _, ranks, _, _ in epoch(straight))


def test_a_batch_is_what_the_model_reads(task):
    """The loss equals that of each row alone: padding comes last in every order and has no label."""
    rows = [row for row in epoch(task) if 1 in row[2]][:2] + [
        row for row in epoch(task) if len(row[0]) == N_CTX
    ][:1]
    model = random_xlnet(vocab_size=task.tokenizer.vocab_size, n_ctx=N_CTX)
    batch = task.collate(rows)
    together = tokens_in_order(model(*batch.inputs), batch, 0.0)
    alone = 0.0
    for ids, ranks, segments, labels in rows:
        with torch.no_grad():
            logits = model(torch.tensor([ids]), torch.tensor([ranks]), torch.tensor([segments]))[
                "token in order"
            ][0]
        alone += sum(
            -float(logits[i].double().log_softmax(-1)[label]) for i, label in enumerate(labels)
        )
    assert list(together) == [LABEL_BATCH]
    wide = batch.inputs[1].shape[1]
    assert all(
        batch.inputs[1][i, len(row[0]) :].tolist() == [wide] * (wide - len(row[0]))
        for i, row in enumerate(rows)
    )
    assert together[LABEL_BATCH].item() == pytest.approx(alone, rel=1e-4)
    assert batch.n_labels == sum(len(ids) for ids, *_ in rows)


def test_long_documents_are_shown_by_their_beginnings(tmp_path):
    (book := tmp_path / "book.txt").write_text(
        "\n\n".join(["word " * 50 + f"{i}" for i in range(300)])
    )
    (case, *_) = PermutationTask(book).held_out(validation=True)
    assert case.fields == ["word " * 19 + "word"]


def test_the_scores_are_those_of_held_out_text(task):
    """The model is called row by row, in the order drawn for each and from left to right; the unigram is counted."""
    model = random_xlnet(vocab_size=task.tokenizer.vocab_size, n_ctx=N_CTX)
    done = []
    found = task.evaluate(model, 9, progress=lambda n, total: done.append((n, total))).measures
    rows, rng = task._held_out_pieces(False)[:9], random.Random(0)
    drawn = [rng.sample(range(len(ids)), len(ids)) for ids in rows]
    held_out = set(task._split["test"])
    assert all(any(task.tokenizer.decode(ids) in document for document in held_out) for ids in rows)

    def nats(ranks: list) -> float:
        total = 0.0
        for ids, rank in zip(rows, ranks, strict=True):
            with torch.no_grad():
                p = (
                    model(torch.tensor([ids]), torch.tensor([rank]))["token in order"][0]
                    .double()
                    .log_softmax(-1)
                )
            total -= sum(float(p[i, token]) for i, token in enumerate(ids))
        return total / sum(map(len, rows))

    assert found["nats per token"] == pytest.approx(nats(drawn), rel=1e-5)
    assert found["bits per token"] == pytest.approx(found["nats per token"] / math.log(2))
    assert found["left to right nats per token"] == pytest.approx(
        nats([list(range(len(ids))) for ids in rows]), rel=1e-5
    )
    assert found["left to right nats per token"] != pytest.approx(found["nats per token"], rel=1e-3)
    counts = Counter(i for ids in task._train for i in ids)
    plain = sum(
        -math.log(counts[i] / counts.total()) for ids in rows for i in ids if counts[i]
    ) / sum(map(len, rows))
    assert found["unigram nats per token"] == pytest.approx(plain, rel=0.02)  # up to its discount
    assert done == [(9, 9)]


@pytest.mark.slow
def test_a_small_model_learns_to_fill_from_both_sides(tmp_path):
    """Each row is one word five times: in any order, every token but the first predicted one is known from any other."""
    file, rng = tmp_path / "said.tsv", random.Random(5)
    file.write_text(
        "\n".join(
            sorted(
                {
                    " ".join([rng.choice(WORDS)] * 5) + " " + rng.choice("abcdefgh")
                    for _ in range(600)
                }
            )
        )
    )
    task = open_task("permutation", file, vocab_size=600, n_ctx=16, max_tokens=400)
    recipe = Recipe(
        steps=80,
        warmup=25,
        learning_rate=1.5,
        label_smoothing=0.0,
        validate_every=1000,
        score_cases=0,
    )
    config = XLNetConfig(
        task.tokenizer.vocab_size,
        pad_id=task.tokenizer.pad_id,
        **SIZES | {"d_model": 32, "n_ctx": 16},
    )
    trainer = Trainer(task, config, recipe, tmp_path / "out", torch.device("cpu"))
    list(trainer.train())
    found = task.evaluate(trainer.best_model).measures
    assert found["nats per token"] < found["unigram nats per token"] / 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"predict_last": 0}, "predict_last must be at least 1, not 0"),
        ({"order": "backwards"}, "order must be random or left to right, not 'backwards'"),
        ({"tokens": "words"}, "tokens must be byte pairs or characters, not 'words'"),
    ],
)
def test_an_invalid_setting_is_refused(files, settings, message):
    with pytest.raises(DataError, match=message):
        open_task("permutation", files, **settings)


def test_invalid_data_are_refused(tmp_path):
    with pytest.raises(
        DataError, match=r"permutation needs one or several files of text \(--data FILE …\)"
    ):
        open_task("permutation")
    (empty := tmp_path / "empty.txt").write_text(" \n\n ")
    with pytest.raises(DataError, match=r"empty.txt: holds no text"):
        open_task("permutation", empty)
    (one := tmp_path / "one.txt").write_text("A single line.")
    with pytest.raises(
        DataError,
        match=r"one.txt: 1 document, too few for a validation split",
    ):
        open_task(
            "permutation", one, tokenizer=models.load("gpt", device="cpu").tokenizer
        ).validation()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, files: list[Path]) -> Path:
    out = tmp_path_factory.mktemp("runs") / "orders"
    sizes = [
        word
        for name, value in SIZES.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    data = [
        "--data",
        *map(str, files),
        "--vocabulary",
        "gpt",
        "--predict-last",
        "2",
        "--documents",
        "lines",
    ]
    rest = [
        "--steps",
        "2",
        "--validate-every",
        "2",
        "--snapshots",
        "--n-snapshots",
        "2",
        "--device",
        "cpu",
        "--out",
        str(out),
    ]
    assert cli.main(["train", "permutation", *data, *sizes, *rest]) == 0
    return out


def run_command(capsys: pytest.CaptureFixture, *arguments: str) -> tuple[int, str]:
    capsys.readouterr()
    status = cli.main([*arguments, "--device", "cpu"])
    found = capsys.readouterr()
    return status, found.out + found.err


@pytest.mark.slow
def test_it_is_evaluated_and_inspected(trained, files, capsys):
    record = json.loads((trained / "training.json").read_text())
    names = [
        "nats per token",
        "bits per token",
        "left to right nats per token",
        "unigram nats per token",
    ]
    assert list(record["scores"]) == [f"held-out {names[0]}", *names[1:], "cases"]
    data = ["--data", *map(str, files)]
    status, text = run_command(capsys, "evaluate", str(trained), *data)
    assert (
        status,
        "note:" in text,
        f"over {record['scores']['cases']:,} held-out cases" in text,
    ) == (0, False, True)
    assert [float(line.split()[-1]) for line in text.splitlines()[:4]] == pytest.approx(
        [value for name, value in record["scores"].items() if name != "cases"], abs=1e-3
    )
    status, text = run_command(
        capsys, "evaluate", str(trained), *data, "--snapshots", "--limit", "3"
    )
    assert status == 0
    assert [line.split(":")[0] for line in text.splitlines() if ": nats" in line] == [
        "step      0",
        "step      2",
    ]
    status, text = run_command(capsys, "inspect", str(trained))
    assert (status, "permutation" in text, "content_attn.W_R.weight" in text) == (0, True, True)


def test_its_predictions_are_printed_in_the_requested_order(trained, capsys):
    scope, text, order = models.load(trained, device="cpu"), "bal ban", [2, 0, 3, 1]
    assert len(scope.encode(text)["text"].ids) == 4
    output = scope.run(text, order=order).outputs["token in order"]
    status, shown = run_command(capsys, "decode", str(trained), text, "--order", *map(str, order))
    lines = shown.splitlines()
    assert (status, [int(line.split()[0]) for line in lines[:4]]) == (0, order)
    assert [float(line.split(" bits")[0].split()[-1]) for line in lines[:4]] == [
        pytest.approx(float(output.surprisal[i]), abs=0.005) for i in order
    ]
    assert lines[4] == f"{float(output.surprisal.sum()):.2f} bits in total"
    assert all(
        f"expected {output.predicted[i]} (" in line for i, line in zip(order, lines, strict=False)
    )
    status, shown = run_command(capsys, "decode", str(trained), text, "--order", "0", "0", "1", "2")
    assert (status, "the order must name each of the 4 tokens once" in shown) == (1, True)
    status, shown = run_command(capsys, "decode", "gpt", text, "--order", "0", "1")
    assert (status, "--order does not apply to gpt" in shown) == (
        1,
        True,
    )
