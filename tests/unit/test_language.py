"""The task `language`: documents kept apart, a split that leaks nothing, likelihoods by a second route, n-grams by hand."""

import gzip
import json
import math
import random
from pathlib import Path

import pytest
import torch
from small import random_gpt

from models import cli
from models.architectures.gpt import GPTConfig
from models.checkpoint import load_checkpoint
from models.checkpoint_files import snapshots
from models.tasks import open_task
from models.tasks.language import LanguageTask, cut_document
from models.tasks.split import same_text, split_of
from models.tasks.text_files import in_parts, read_documents
from models.tokenizers.base import END, START
from models.training import likelihood
from models.training.batches import NO_LABEL
from models.training.likelihood import baselines, likelihood_measures, likelihoods
from models.training.ngrams import NGRAM_PADDING, KneserNey
from models.training.recipe import Recipe
from models.training.task import DataError, Passage
from models.training.trainer import Trainer
from models.training.validation import validation_scores
from models.training_record import check_record

WORDS = "the a cat dog sat ran on under old red mat tree and then it was seen by all".split()


def sentences(n: int, seed: int = 1) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(3, 11))).capitalize() + "." for _ in range(n)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A table of 700 sentences, a book of paragraphs, one long text."""
    folder = tmp_path_factory.mktemp("texts")
    (folder / "lines.tsv").write_text("".join(f"{line}\tune phrase\n" for line in sentences(700)))
    paragraphs = [sentences(4, seed) for seed in range(2, 90)]
    (folder / "book.txt").write_text("\n\n".join("\n".join(lines) for lines in paragraphs))
    (folder / "whole.txt").write_text("\n".join(sentences(300, 91)))
    return folder


@pytest.fixture(scope="module")
def task(folder) -> LanguageTask:
    return LanguageTask(
        [folder / "lines.tsv", folder / "book.txt"], vocab_size=311, n_ctx=17, max_tokens=101
    )


@pytest.fixture(scope="module")
def whole(folder) -> LanguageTask:
    return LanguageTask(
        folder / "whole.txt", documents="whole", tokens="characters", n_ctx=23, max_tokens=97
    )


def test_documents_are_lines_paragraphs_whole_files_or_the_first_column_of_a_table(tmp_path):
    text = "One\ntwo.\n\n\n Three  four.\n\t\nfive\n"
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("a.txt", "a.txt.gz"):
        assert read_documents(tmp_path / name, "paragraphs") == ["One two.", "Three four.", "five"]
        assert read_documents(tmp_path / name, "lines") == ["One", "two.", "Three  four.", "five"]
        assert read_documents(tmp_path / name, "whole") == [text.rstrip("\n")]
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress("Go.\tVa !\n\n Hi \t1\n".encode("utf-8-sig")))
    for documents in ("lines", "paragraphs", "whole"):
        assert read_documents(tmp_path / "a.tsv.gz", documents) == ["Go.", "Hi"]


@pytest.mark.parametrize(
    ("content", "settings", "message"),
    [
        (
            b"text",
            {"documents": "pages"},
            "documents must be lines, paragraphs or whole, not 'pages'",
        ),
        (b"text", {"tokens": "words"}, "tokens must be byte pairs or characters, not 'words'"),
        (b" \n\n\t", {}, "holds no text"),
        (b"\xff\xfe", {}, "not UTF-8 text"),
        (None, {}, "no such file"),
    ],
)
def test_unusable_texts_are_refused(tmp_path, content, settings, message):
    if content is not None:
        (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(DataError, match=message):
        LanguageTask(tmp_path / "a.txt", **settings)


def test_too_few_documents_are_reported_before_training(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\ntwo")
    with pytest.raises(
        DataError,
        match=r"a\.txt: 2 documents, too few for a validation split",
    ):
        LanguageTask(tmp_path / "a.txt").validation()


def test_a_language_needs_files_and_takes_no_others():
    with pytest.raises(DataError, match="language needs one or several files of text"):
        open_task("language")
    with pytest.raises(DataError, match="language splits its own files"):
        open_task("language", ["a.txt"], test_files=["b.txt"])


def test_no_two_sets_hold_equivalent_texts(task):
    sets = {
        name: {same_text(document) for document in documents}
        for name, documents in task._split.items()
    }
    assert all(sets.values())
    assert not sets["train"] & (sets["test"] | sets["validation"])
    assert not sets["test"] & sets["validation"]
    for name, documents in task._split.items():
        assert {split_of(document) for document in documents} == {name}
        assert len(set(documents)) == len(
            documents
        )  # each sentence once, however often it stands in the file
    found = {document for documents in task._split.values() for document in documents}
    assert found == set(sentences(700)) | {" ".join(sentences(4, seed)) for seed in range(2, 90)}


def test_repeated_texts_are_left_out_of_the_later_sets(tmp_path):
    held_out = next(
        f"It is {i}."
        for i in range(1000)
        if split_of(f"It is {i}.") == "test" and split_of(f"it's {i}") == "train"
    )
    number = held_out.removeprefix("It is ").removesuffix(".")
    (tmp_path / "a.txt").write_text(f"{held_out}\nit's {number}\n")
    task = LanguageTask(tmp_path / "a.txt", documents="lines")
    assert task._split == {"train": [f"it's {number}"], "test": [], "validation": []}
    assert task.data()["left out"] == 1


def test_a_whole_text_is_cut_into_disjoint_consecutive_parts(folder, whole):
    text = (folder / "whole.txt").read_text()
    parts = [whole._split[name][0] for name in ("train", "validation", "test")]
    assert "".join(parts) == text
    assert [len(part) / len(text) for part in parts] == pytest.approx([0.89, 0.01, 0.10], abs=0.001)
    assert in_parts("abcdefghij", (0.5, 0.8)) == ["abcde", "fgh", "ij"]
    assert whole.data()["documents are"] == "whole"
    assert whole.data()["characters"] == {
        "train": len(parts[0]),
        "validation": len(parts[1]),
        "test": len(parts[2]),
    }


def test_the_vocabulary_is_learned_on_training_documents_alone(folder):
    (folder / "signs.txt").write_text("\n".join(f"word {i} {chr(0x4E00 + i)}" for i in range(300)))
    task = LanguageTask(folder / "signs.txt", documents="lines", tokens="characters")
    alphabet = {c for document in task._split["train"] for c in document}
    assert {task.tokenizer.token(i) for i in range(4, task.tokenizer.vocab_size)} == alphabet
    assert task.tokenizer.encode(task._split["test"][0]).unknown == (task._split["test"][0][-1],)


def test_a_document_is_read_to_its_end_and_cut_only_if_it_is_long():
    labels = [*range(10, 21), END]
    assert list(cut_document(labels, 12, START)) == [([START, *labels[:-1]], labels)]
    assert list(cut_document(labels, 5, START)) == [
        ([START, 10, 11, 12, 13], labels[:5]), ([START, 15, 16, 17, 18], labels[5:10]), ([START, 20], [20, END]),
    ]  # fmt: skip
    firsts = set()
    for seed in range(50):
        windows = list(cut_document(labels, 5, START, random.Random(seed)))
        assert [label for _, mine in windows for label in mine] == labels
        assert all(inputs == [START, *mine[:-1]] and len(mine) <= 5 for inputs, mine in windows)
        firsts.add(len(windows[0][1]))
    assert firsts == {1, 2, 3, 4, 5}
    assert (
        next(cut_document(labels, 12, START, random.Random(1)))[1] == labels
    )  # a short document is never cut


def test_an_epoch_has_every_token_once_and_no_row_has_two_documents(task):
    batches, seen, wanted = task.batches(seed=3), [], sorted(map(tuple, task.labels("train")))
    n, full = sum(map(len, wanted)), False
    while sum(map(len, seen)) < n:
        batch = next(batches)
        padded = task.collate(batch)
        (inputs,) = padded.inputs
        assert inputs.numel() <= 101
        full |= (
            len(inputs) * (inputs.shape[1] + 1) > 101
        )  # with one more position per row, one row fewer
        assert inputs.shape == padded.labels.shape
        assert padded.n_labels == sum(len(labels) for _, labels in batch)
        assert (inputs[:, 0] == START).all()
        assert (inputs[:, 1:] != START).all()
        assert (inputs != END).all()
        going_on = padded.labels[:, 1:] != NO_LABEL
        assert torch.equal(inputs[:, 1:][going_on], padded.labels[:, :-1][going_on])
        seen += [tuple(labels) for _, labels in batch]
    assert full
    assert sum(map(len, seen)) == n
    short = {labels for labels in wanted if len(labels) <= 17}
    assert short <= set(seen)
    assert all(end == END for *_, end in short)
    assert sum(labels[-1] == END for labels in seen) == len(wanted)


def test_batches_depend_on_the_seed_alone_which_also_moves_the_cuts_of_long_documents(task, whole):
    def some(task: LanguageTask, seed: int) -> list:
        return [batch for batch, _ in zip(task.batches(seed), range(23), strict=False)]

    assert some(task, 3) == some(task, 3) != some(task, 4)
    n, epochs = len(task._train), [[], []]
    batches = task.batches(3)
    for epoch in epochs:
        while sum(labels[-1] == END for batch in epoch for _, labels in batch) < n:
            epoch.append(next(batches))
    assert epochs[0] != epochs[1]
    first = [
        next(cut_document(whole.labels("train")[0], 23, START, random.Random(f"{seed}/0")))[1]
        for seed in range(9)
    ]
    assert len({len(labels) for labels in first}) > 3


def test_held_out_passages_are_the_whole_of_the_held_out_documents(task, whole):
    for one in (task, whole):
        passages = one.passages()
        tests = one._split["test"]
        assert sum(p.n_bytes for p in passages) == sum(len(document.encode()) for document in tests)
        assert sum(p.n_characters for p in passages) == sum(map(len, tests))
        written = sorted(one.tokenizer.decode(labels) for labels in one.labels("test"))
        assert written == sorted(tests)
        labels = sorted(label for passage in passages for label in passage.labels)
        assert labels == sorted(label for document in one.labels("test") for label in document)
        assert max(len(p.labels) for p in passages) <= one.n_ctx
        assert one.passages(5) == passages[:5]
        assert one.passages(validation=True) != passages


def test_a_document_as_long_as_a_row_has_its_end_token_in_a_separate_row(tmp_path):
    (tmp_path / "a.txt").write_text("abcdé")
    task = LanguageTask(tmp_path / "a.txt", documents="whole", tokens="characters", n_ctx=5)
    task._split["test"] = ["abcdé", "éab"]
    found = [
        (len(p.labels), p.labels[-1] == END, p.n_characters, p.n_bytes) for p in task.passages()
    ]
    assert sorted(found) == [(1, True, 0, 0), (4, True, 3, 4), (5, False, 5, 6)]


def test_the_space_that_a_part_begins_with_is_counted(folder):
    whole = LanguageTask(folder / "whole.txt", documents="whole", vocab_size=290, n_ctx=3)
    whole._split["test"] = [" the cat sat"]
    assert (
        sum(p.n_bytes for p in whole.passages())
        == sum(p.n_characters for p in whole.passages())
        == 12
    )


def test_held_out_beginnings_come_from_documents_that_continue(task, whole):
    for one in (task, whole):
        for case in one.held_out(7, validation=False):
            (document,) = case.references
            assert len(case.source.split()) == 5
            assert document.startswith(case.source)
            assert len(document) > len(case.source)
    texts = [case.references[0] for case in task.held_out(validation=True)]
    assert set(texts) <= set(task._split["validation"])


def test_perplexity_bits_per_byte_and_nats_per_character_token_by_token(task):
    passages, model = task.passages(), random_gpt(vocab_size=task.tokenizer.vocab_size)
    seen: list[int] = []
    found = likelihoods(model, passages, lambda done, total: seen.append(done))
    nats, tokens = 0.0, 0
    for passage in passages:
        row = [START]
        for label in passage.labels:
            with torch.no_grad():
                nats -= float(model(torch.tensor([row]))[0, -1].double().log_softmax(-1)[label])
            row.append(label)
            tokens += 1
    text = "".join(task._split["test"])
    assert found["perplexity"] == pytest.approx(math.exp(nats / tokens), rel=1e-4)
    assert found["bits per byte"] == pytest.approx(
        nats / math.log(2) / len(text.encode()), rel=1e-4
    )
    assert found["nats per character"] == pytest.approx(nats / len(text), rel=1e-4)
    assert seen[-1] == len(passages)


def test_passages_are_read_in_batches_of_bounded_size(task, monkeypatch):
    model, shapes = random_gpt(vocab_size=task.tokenizer.vocab_size), []
    whole = likelihoods(model, task.passages())
    monkeypatch.setattr(likelihood, "BATCH_TOKENS", 41)
    model.register_forward_hook(lambda module, given, logits: shapes.append(logits.shape[:2]))
    assert likelihoods(model, task.passages()) == pytest.approx(whole, rel=1e-5)
    assert sum(rows for rows, _ in shapes) == len(task.passages())
    assert max(rows * width for rows, width in shapes) <= 41
    assert min(rows for rows, _ in shapes[:-1]) > 1


def test_measures_by_hand():
    """16 bits for 4 tokens, 8 bytes and 5 characters."""
    found = likelihood_measures(16 * math.log(2), [Passage((7, 8, 9), 3, 6), Passage((END,), 2, 2)])
    assert found == pytest.approx(
        {"perplexity": 16, "bits per byte": 2, "nats per character": 16 * math.log(2) / 5}
    )


def test_a_diverged_model_is_recorded_without_a_perplexity(task, tmp_path):
    """At 10,000 times the logits, e to the nats per token is larger than any float."""
    run = trainer(task, tmp_path)
    run.model.embedding.weight.data *= 10_000
    measures = validation_scores(run.model, task, 3)
    assert measures.keys() == {"bits per byte", "nats per character"}
    check_record({"curve": [{"step": 1} | measures]})
    assert task.evaluate(run.model, 3).measures["perplexity"] == math.inf


# n-gram models


ROWS = [[4, 5, 4, 5, 6], [4, 5, 7], [6, 6]]


def test_a_unigram_by_hand():
    """Counts are 4:3 5:3 6:3 7:1, ten in all; one token occurs once and none twice, so D = 1."""
    model = KneserNey(ROWS, 11, 1)
    assert [model.prob(token) for token in (4, 7, 8)] == pytest.approx(
        [2 / 10 + 4 / 10 / 11, 4 / 110, 4 / 110]
    )
    assert model.log_prob([4, 7]) == pytest.approx(math.log((0.2 + 0.4 / 11) * 4 / 110))


def test_the_discount_is_a_half_if_nothing_was_seen_once():
    assert KneserNey([[4, 4, 5, 5]], 11, 1).prob(4) == pytest.approx(1.5 / 4 + 0.5 * 2 / 4 / 11)


def test_a_bigram_by_hand():
    """After <s>: 4 twice, 6 once. Pairs seen once: <s>6, 54, 56, 57, 66 (5); twice: <s>4 (1); three times: 45. D₂ = 5/7.
    4 follows <s> and 5, 5 follows 4, 6 follows <s>, 5 and 6, 7 follows 5: continuation counts 2 1 3 1 of 7; D₁ = 2/(2+2·1) = ½."""
    model = KneserNey(ROWS, 11, 2)
    d = 5 / 7
    lower = {4: 1.5 / 7, 5: 0.5 / 7, 6: 2.5 / 7, 7: 0.5 / 7, 8: 0.0}
    lower = {token: p + 0.5 * 4 / 7 / 11 for token, p in lower.items()}
    assert model.prob(4, (NGRAM_PADDING,)) == pytest.approx((2 - d) / 3 + d * 2 / 3 * lower[4])
    assert model.prob(5, (4,)) == pytest.approx((3 - d) / 3 + d * 1 / 3 * lower[5])
    assert model.prob(8, (5,)) == pytest.approx(d * 3 / 3 * lower[8])
    assert model.prob(6, (7,)) == pytest.approx(lower[6])  # nothing follows 7
    assert model.log_prob([4, 5]) == pytest.approx(
        math.log(model.prob(4, (NGRAM_PADDING,)) * model.prob(5, (4,)))
    )


@pytest.mark.parametrize("order", [1, 2, 3])
def test_probabilities_sum_to_one_after_any_context(order):
    model = KneserNey(ROWS, 11, order)
    for context in (
        (NGRAM_PADDING, NGRAM_PADDING),
        (NGRAM_PADDING, 4),
        (4, 5),
        (5, 4),
        (6, 6),
        (9, 9),
        (4, 9),
    ):
        own = context[len(context) - order + 1 :] if order > 1 else ()
        assert sum(model.prob(token, own) for token in range(11)) == pytest.approx(1)
        assert min(model.prob(token, own) for token in range(11)) > 0


def test_trigrams_predict_better_than_bigrams():
    rows = [[4, 5, 6], [7, 5, 8]] * 13
    trigram, bigram = KneserNey(rows, 11, 3), KneserNey(rows, 11, 2)
    assert trigram.prob(6, (4, 5)) > 0.9
    assert bigram.prob(6, (5,)) == pytest.approx(0.5, abs=0.02)


def test_the_baselines_read_the_same_passages(task):
    passages, vocab_size = task.passages(), task.tokenizer.vocab_size
    found = baselines(task.labels("train"), passages, vocab_size)
    assert found.keys() == {
        f"{name} {what}"
        for name in ("unigram", "trigram")
        for what in ("perplexity", "bits per byte")
    }
    unigram = KneserNey(task.labels("train"), vocab_size, 1)
    nats = -sum(math.log(unigram.prob(label)) for passage in passages for label in passage.labels)
    assert found["unigram perplexity"] == pytest.approx(
        math.exp(nats / sum(len(p.labels) for p in passages))
    )
    trigram = KneserNey(task.labels("train"), vocab_size, 3)
    nats = -sum(trigram.log_prob(passage.labels) for passage in passages)
    assert found["trigram bits per byte"] == pytest.approx(
        nats / math.log(2) / sum(p.n_bytes for p in passages)
    )
    assert found["trigram bits per byte"] < 0.9 * found["unigram bits per byte"]


# training


SIZES = {"d_model": 15, "n_heads": 3, "n_layers": 1, "n_ctx": 17, "dropout": 0.3}
RECIPE = {"steps": 13, "warmup": 53, "label_smoothing": 0.0, "score_cases": 5, "save_every": 1, "validate_every": 5,
          "average_last": 0.5, "snapshots": True, "n_snapshots": 3, "snapshot_ratio": 4}  # fmt: skip


def trainer(task: LanguageTask, folder: Path, **changes) -> Trainer:
    config = GPTConfig(task.tokenizer.vocab_size, **SIZES)
    return Trainer(
        task, config, Recipe(**RECIPE | changes), folder, torch.device("cpu"), "made by the tests"
    )


def test_a_resumed_run_of_text_is_an_uninterrupted_one_bit_by_bit(task, tmp_path):
    losses = [record.loss for record in trainer(task, tmp_path / "whole").train()]
    for record in trainer(task, tmp_path / "cut").train():
        if record.step == 6:
            break
    again = trainer(task, tmp_path / "cut")
    assert again.resume() == 6
    assert [record.loss for record in again.train()] == losses[6:]
    names = ["model.safetensors", *(f"snapshots/{step:06d}.safetensors" for step in (0, 4, 13))]
    assert snapshots(tmp_path / "cut") == [0, 4, 13]
    for name in names:
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()


def test_a_step_of_text_is_the_mean_over_its_tokens(task, tmp_path):
    batch = next(task.batches(1))
    run = trainer(task, tmp_path)
    run.model.eval()
    total, tokens = 0.0, 0
    for inputs, labels in batch:
        with torch.no_grad():
            log_probs = run.model(torch.tensor([inputs]))[0].log_softmax(-1)
        total -= float(log_probs[range(len(labels)), labels].sum())
        tokens += len(labels)
    run.model.train = lambda mode=True: run.model  # no dropout
    record = next(run.train())
    assert record.labels == tokens
    assert record.loss == pytest.approx(total / tokens, rel=1e-4)


def test_the_validation_loss_is_computed_on_the_validation_documents(task, tmp_path):
    run = trainer(task, tmp_path, average_last=0.0)
    validation = [record.validation for record in run.train() if record.validation][-1]
    total, tokens = 0.0, 0
    for inputs, labels in task.validation():
        with torch.no_grad():
            log_probs = run.model(torch.tensor([inputs]))[0].log_softmax(-1)
        total -= float(log_probs[range(len(labels)), labels].sum())
        tokens += len(labels)
    assert validation["validation loss"] == pytest.approx(total / tokens, rel=1e-4)
    assert validation["perplexity"] == pytest.approx(
        likelihoods(run.model, task.passages(5, validation=True))["perplexity"]
    )
    assert "cross-attention entropy" not in validation


@pytest.mark.slow
def test_a_model_of_text_learns(task, tmp_path):
    run = trainer(task, tmp_path, steps=83, warmup=41, validate_every=83, learning_rate=0.5)
    untrained = likelihoods(run.model.eval(), task.passages())["bits per byte"]
    list(run.train())
    assert likelihoods(run.best_model.eval(), task.passages())["bits per byte"] < 0.75 * untrained


PARTS = ("train", "validation", "test")
FLAGS = ("--d-model 15 --n-heads 3 --n-layers 1 --n-ctx 17 --steps 5 --warmup 7 --validate-every 3 --vocab-size 290 --device cpu "
         "--snapshots --n-snapshots 2").split()  # fmt: skip


def test_train_evaluate_decode_inspect(folder, tmp_path, capsys):
    out, data = (
        str(tmp_path / "run"),
        ["--data", str(folder / "lines.tsv"), str(folder / "book.txt")],
    )
    assert cli.main(["train", "language", *data, "--out", out, *FLAGS]) == 0
    printed = capsys.readouterr().out
    counts = LanguageTask(data[1:]).data()
    assert (
        f"{sum(counts['characters'].values()):,} characters of text: d_model 15, n_heads 3"
        in printed
    )
    sizes = [
        f"{counts['documents'][part]:,} documents ({counts['characters'][part]:,} characters)"
        for part in PARTS
    ]
    assert "{} to train on, {} to validate on, {} to test on\n".format(*sizes) in printed
    assert len(set(sizes)) == 3
    left = f"repeats of a training or test document: {counts['left out']:,}\n"
    assert (left in printed) == ("left out" in printed) == (counts["left out"] > 0)
    assert "step 3: validation loss" in printed
    record = json.loads((tmp_path / "run" / "training.json").read_text())
    scores = record["scores"]
    assert list(scores) == [
        "held-out perplexity", "bits per byte", "nats per character", "unigram perplexity", "unigram bits per byte",
        "trigram perplexity", "trigram bits per byte", "cases",
    ]  # fmt: skip
    assert record["data"]["documents are"] == "paragraphs"
    assert record["data"]["file"] == "lines.tsv + book.txt"
    assert 3 < len(record["examples"]) <= 5

    checkpoint = load_checkpoint(tmp_path / "run")
    task = LanguageTask(data[1:], tokenizer=checkpoint.tokenizer, n_ctx=17)
    assert scores["cases"] == len(task.passages())
    assert scores["bits per byte"] == pytest.approx(
        likelihoods(checkpoint.model, task.passages())["bits per byte"], abs=1e-3
    )

    assert cli.main(["evaluate", out, *data, "--device", "cpu"]) == 0
    printed = capsys.readouterr()
    *table, last = printed.out.splitlines()
    assert [row[:24].rstrip() for row in table] == [
        name.removeprefix("held-out ") for name in scores if name != "cases"
    ]
    shown = [float(row[24:].replace(",", "")) for row in table]
    assert shown == pytest.approx(
        [value for name, value in scores.items() if name != "cases"], abs=1.1e-3
    )
    n_tokens = sum(len(passage.labels) for passage in task.passages())
    assert last == f"over {scores['cases']:,} held-out passages, {n_tokens:,} tokens"
    assert "note" not in printed.err
    assert cli.main(["evaluate", out, *data, "--device", "cpu", "--snapshots", "--record"]) == 0
    lines = capsys.readouterr().out.splitlines()
    record = json.loads((tmp_path / "run" / "training.json").read_text())
    assert record["snapshot_scores"].keys() == {"0", "5"}
    for line, (step, kept) in zip(lines, record["snapshot_scores"].items(), strict=True):
        said, numbers = line.rsplit(" over ", 1)[0].split(": ")
        assert said == f"step {int(step):6,}"
        shown = dict(part.rsplit(" ", 1) for part in numbers.split(", "))
        measured = {
            name.removeprefix("held-out "): value
            for name, value in kept["scores"].items()
            if name != "cases"
        }
        assert shown.keys() == measured.keys()
        assert [float(value) for value in shown.values()] == pytest.approx(
            list(measured.values()), abs=1.1e-3
        )
    for name in ("measured_on", "scores"):
        assert record["snapshot_scores"]["0"][name] != record["snapshot_scores"]["5"][name]
    assert record["snapshot_scores"]["5"]["scores"]["bits per byte"] == pytest.approx(
        scores["bits per byte"], abs=1e-3
    )

    for how in ([], ["--how", "beam"], ["--how", "sample", "--seed", "3"]):
        assert cli.main(["decode", out, "The cat", *how, "--device", "cpu"]) == 0
        capsys.readouterr()
    assert cli.main(["inspect", out]) == 0
    assert "language" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "{run}", "--data", "{lines}", "--by-length"], "--test and --by-length apply"),
        (["evaluate", "{run}"], "language needs one or several files of text"),
        (["evaluate", "{run}", "--data", "{lines}", "--snapshots"], "has no training snapshots"),
        (["train", "language", "--data", "{lines}", "--model", "rnn"], "model rnn is not available for the task language"),
        (["train", "language", "--data", "{lines}", "--batch-size", "3"], "--batch-size does not apply to the task language"),
    ],
)  # fmt: skip
def test_a_command_that_does_not_fit_a_text_model_fails_in_one_line(
    task, folder, tmp_path, arguments, message, capsys
):
    list(trainer(task, tmp_path / "run", steps=1, snapshots=False).train())
    names = {"run": tmp_path / "run", "lines": folder / "lines.tsv"}
    assert cli.main([argument.format(**names) for argument in arguments]) == 1
    assert message in capsys.readouterr().err


def test_evaluating_on_other_data_than_the_training_data_is_noted(task, folder, tmp_path, capsys):
    list(trainer(task, tmp_path / "run", steps=1).train())
    few = ["--data", str(folder / "lines.tsv"), "--limit", "3", "--device", "cpu"]
    assert cli.main(["evaluate", str(tmp_path / "run"), *few]) == 0
    printed = capsys.readouterr()
    assert "this is not the data the checkpoint was trained on" in printed.err
    assert "over 3 held-out passages" in printed.out


def test_a_record_holds_perplexities_above_a_hundred_and_percentages_below():
    good = {
        "held-out perplexity": 512.5,
        "trigram bits per byte": 101.0,
        "nats per character": 0,
        "BLEU": 99,
        "cases": 7,
    }
    check_record({"scores": good})
    bad = (
        {"held-out perplexity": -1.0},
        {"bits per byte": "low"},
        {"BLEU": 101.0},
        {"cases": 1.5},
        {"perplexity of it": 101},
    )
    for odd in bad:
        with pytest.raises(
            ValueError,
            match="scores must be an object of percentages, likelihoods and a count of cases",
        ):
            check_record({"scores": odd})
