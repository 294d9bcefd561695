"""The task of masked tokens and next sentences: rows, masking, pairs that follow each other, scores."""

import math
import random
from collections import Counter
from pathlib import Path

import pytest
import torch
from checked import unchecked
from small import random_bert

from models.architectures.bert import BERTConfig
from models.tasks import DataError, open_task
from models.tasks.masked import FOLLOWS, FOREIGN, MaskedTask, masked_word_case, sentences
from models.training.batches import NO_LABEL
from models.training.objectives import CLASS_BATCH, LABEL_BATCH, masked_tokens
from models.training.recipe import Recipe
from models.training.trainer import Trainer

WORDS = [
    f"{a}{b}{c}" for a in "bdgkm" for b in "aeiou" for c in "lnrst"
]  # 125 words of one token each


def sentence(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(3, 9))).capitalize() + "."


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder, rng = tmp_path_factory.mktemp("texts"), random.Random(3)
    book, table = folder / "book.txt", folder / "lines.tsv"
    book.write_text("\n\n".join(" ".join(sentence(rng) for _ in range(5)) for _ in range(120)))
    table.write_text("\n".join(f"{sentence(rng)}\tignored" for _ in range(400)))
    return [book, table]


@pytest.fixture(scope="module")
def task(files: list[Path]) -> MaskedTask:
    return open_task("mlm", files, vocab_size=1000, n_ctx=41, max_tokens=500)


def rows_of_batches(task: MaskedTask, seed: int, n: int) -> list:
    batches = task.batches(seed)
    return [row for _ in range(n) for row in next(batches)]


def test_sentences_are_cut_after_their_punctuation():
    text = 'He came. "Did he?" she said.\nYes! (He did.) It was 3.5 miles, Mr. Fox said... No'
    assert sentences(text) == [
        "He came.",
        '"Did he?" she said.',
        "Yes!",
        "(He did.)",
        "It was 3.5 miles, Mr.",
        "Fox said...",
        "No",
    ]
    assert " ".join(sentences(text)) == " ".join(text.split())


def test_a_row_with_its_labels_is_a_text(task):
    """With the labels put back, each row is [CLS] text [SEP], or two texts, of the training set."""
    known = " ".join(
        " ".join(task.tokenizer.tokens(ids))
        for ids in task.tokenizer.encode_many(task._texts("train"))
    )
    kinds = Counter()
    for ids, segments, positions, labels, (kind,) in rows_of_batches(task, 5, 40):
        whole = list(ids)
        for place, label in zip(positions, labels, strict=True):
            whole[place] = label
        tokens = task.tokenizer.tokens(whole)
        ends = [i for i, token in enumerate(tokens) if token == "[SEP]"]
        assert tokens[0] == "[CLS]"
        assert ends[-1] == len(tokens) - 1 < 41
        assert len(ends) == 1 + (kind != NO_LABEL)
        assert segments == [int(i > ends[0]) for i in range(len(tokens))]
        pieces = [" ".join(tokens[a + 1 : b]) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
        assert all(piece in known for piece in pieces)
        if kind != NO_LABEL:
            assert (" ".join(pieces) in known) == (kind == FOLLOWS)
        kinds[kind] += 1
    assert set(kinds) == {NO_LABEL, FOLLOWS, FOREIGN}
    assert 0.6 < kinds[FOLLOWS] / kinds[FOREIGN] < 1.6


@unchecked()
def test_fifteen_percent_are_predicted_and_eight_of_ten_of_them_masked(task):
    asked, of, hidden, replaced, kept = 0, 0, 0, 0, 0
    for ids, _, positions, labels, _ in rows_of_batches(task, 7, 150):
        n = sum(not task.tokenizer.is_special(i) for i in ids) + sum(
            ids[p] == task.tokenizer.mask_id for p in positions
        )
        assert len(positions) == len(labels) == max(1, round(0.15 * n))
        assert sorted(set(positions)) == list(positions)
        assert sum(i == task.tokenizer.mask_id for i in ids) == sum(
            ids[p] == task.tokenizer.mask_id for p in positions
        )
        asked, of = asked + len(positions), of + n
        for place, label in zip(positions, labels, strict=True):
            hidden += ids[place] == task.tokenizer.mask_id
            kept += ids[place] == label
            replaced += ids[place] not in (label, task.tokenizer.mask_id)
            assert not task.tokenizer.is_special(label)
    assert 0.12 < asked / of < 0.19  # in short rows one token is more than that
    assert hidden / asked == pytest.approx(0.8, abs=0.03)
    assert replaced / asked == pytest.approx(0.1, abs=0.025)
    assert kept / asked == pytest.approx(0.1, abs=0.025)


def test_batches_depend_on_the_seed_alone_and_every_epoch_masks_anew(task):
    assert rows_of_batches(task, 3, 4) == rows_of_batches(task, 3, 4) != rows_of_batches(task, 4, 4)
    n_alone = len(task._single["train"])
    batches, lines = task.batches(2), []
    while len(lines) < 2 * n_alone:
        lines += [row for row in next(batches) if row[4] == (NO_LABEL,)]
    counts = Counter(tuple(i for i in ids) for ids, *_ in lines)
    assert counts.most_common(1)[0][1] <= 4


def test_collating_pads_each_part_with_its_own_value(task):
    rows = rows_of_batches(task, 3, 1)
    batch = task.collate(rows)
    ids, segments, positions = batch.inputs
    for i, (own_ids, own_segments, places, labels, (kind,)) in enumerate(rows):
        n, k = len(own_ids), len(places)
        assert ids[i].tolist() == [*own_ids, *[task.tokenizer.pad_id] * (ids.shape[1] - n)]
        assert segments[i, :n].tolist() == own_segments
        assert positions[i, :k].tolist() == places
        assert batch.labels[i].tolist() == [*labels, *[NO_LABEL] * (batch.labels.shape[1] - k)]
        assert int(batch.classes[i]) == kind
    assert batch.n_labels == sum(len(row[3]) for row in rows)
    assert batch.n_classes == sum(row[4] != (NO_LABEL,) for row in rows)


def test_the_loss_by_hand(task):
    model = random_bert(vocab_size=task.tokenizer.vocab_size, n_ctx=41)
    rows = [row for row in rows_of_batches(task, 3, 30) if row[4] != (NO_LABEL,)][
        :3
    ] + rows_of_batches(task, 3, 1)[:2]
    tokens = pairs = 0.0
    for ids, segments, positions, labels, (kind,) in rows:
        with torch.no_grad():
            made = model(torch.tensor([ids]), torch.tensor([segments]))
        log_probs = made["masked token"][0].log_softmax(-1)
        tokens -= sum(
            float(log_probs[place, label]) for place, label in zip(positions, labels, strict=True)
        )
        pairs -= float(made["next sentence"][0].log_softmax(-1)[kind]) if kind != NO_LABEL else 0.0
    batch = task.collate(rows)
    with torch.no_grad():
        losses = masked_tokens(model(*batch.inputs), batch, 0.0)
    assert {name: float(loss) for name, loss in losses.items()} == pytest.approx(
        {LABEL_BATCH: tokens, CLASS_BATCH: pairs}, rel=1e-4
    )


def test_held_out_rows_are_whole_masked_the_same_way_each_time_and_of_both_kinds(task, files):
    rows = task._held_out_rows(False)
    assert rows == open_task("mlm", files, tokenizer=task.tokenizer, n_ctx=41)._held_out_rows(False)
    assert all(
        ids[place] == task.tokenizer.mask_id
        for ids, _, positions, *_ in rows
        for place in positions
    )
    kinds = Counter(kind for *_, (kind,) in rows[:6])
    assert NO_LABEL in kinds
    assert kinds[FOLLOWS] + kinds[FOREIGN] > 0
    train = set(task._texts("train"))
    assert not train & set(task._texts("test"))
    assert not train & set(task._texts("validation"))
    assert len(task._whole["train"]) == len(task._whole["test"]) == 1


def test_the_measures_by_hand(task):
    model = random_bert(vocab_size=task.tokenizer.vocab_size, n_ctx=41)
    rows, hidden = task._held_out_rows(False)[:20], Counter()
    right, nats, total, apart, pairs, following = 0, 0.0, 0, 0, 0, 0
    with torch.no_grad():
        for ids, segments, positions, labels, (kind,) in rows:
            made = model(torch.tensor([ids]), torch.tensor([segments]))
            for place, label in zip(positions, labels, strict=True):
                row = made["masked token"][0, place]
                right, nats, total = (
                    right + (int(row.argmax()) == label),
                    nats - float(row.log_softmax(0)[label]),
                    total + 1,
                )
                hidden[label] += 1
            if kind != NO_LABEL:
                apart, pairs = apart + (int(made["next sentence"].argmax()) == kind), pairs + 1
                following += kind == FOLLOWS
    counts = Counter(i for ids in task.tokenizer.encode_many(task._single["train"]) for i in ids)
    for text in task._whole["train"]:
        counts.update(i for ids in task.tokenizer.encode_many(sentences(text)) for i in ids)
    (best, _), n = counts.most_common(1)[0], counts.total() + task.tokenizer.vocab_size
    unigram = -sum(k * math.log((counts[i] + 1) / n) for i, k in hidden.items())
    evaluation = task.evaluate(model, 20)
    assert evaluation.parts == {"masked token": total, "sentence pair": pairs}
    assert evaluation.measures == pytest.approx({
        "masked accuracy": 100 * right / total, "masked perplexity": math.exp(nats / total),
        "next-sentence accuracy": 100 * apart / pairs,
        "always-the-same next-sentence accuracy": 100 * max(following, pairs - following) / pairs,
        "unigram masked accuracy": 100 * hidden[best] / total, "unigram masked perplexity": math.exp(unigram / total),
    }, rel=1e-4)  # fmt: skip


def test_the_most_frequent_token_is_counted_on_the_training_texts(task):
    """The baseline is the share of masked tokens that equal it, even if another token is the most frequent among them."""
    model = random_bert(vocab_size=task.tokenizer.vocab_size, n_ctx=41)
    texts = [*task._single["train"], *task._whole["train"]]
    counts = Counter(i for ids in task.tokenizer.encode_many(texts) for i in ids)
    ((best, _),), others = counts.most_common(1), 0
    for n in (1, 2, 3, 5, 7, 11, 13):
        hidden = [label for *_, labels, _ in task._held_out_rows(False)[:n] for label in labels]
        found = task.evaluate(model, n).measures["unigram masked accuracy"]
        assert found == pytest.approx(100 * hidden.count(best) / len(hidden))
        others += Counter(hidden).most_common(1)[0][1] > hidden.count(best)
    assert others > 0


def test_examples_hide_the_longest_word_once():
    assert masked_word_case("We saw a little, little dog.").source == "We saw a [MASK], little dog."
    assert masked_word_case("We saw a little dog.").references == ("little",)
    assert masked_word_case("12 + 3").source == "12 + 3"


def test_held_out_examples_come_from_held_out_texts(task):
    for case in task.held_out(20):
        whole = case.source.replace("[MASK]", case.references[0])
        assert any(whole in " ".join(text.split()) for text in task._texts("test"))
        assert case.source.count("[MASK]") == 1


def test_the_training_data_are_recorded(task):
    data = task.data()
    assert data["file"] == "book.txt + lines.tsv"
    assert sum(data["documents"].values()) + data["left out"] == 3 + 400
    assert data["characters"]["train"] == sum(map(len, task._texts("train")))
    assert task.licence == "not stated; that of book.txt, lines.tsv"


def test_files_that_hold_too_little_are_named(tmp_path):
    file = tmp_path / "own.tsv"
    file.write_text("One line.\n")
    with pytest.raises(DataError, match="own.tsv: too little text: none is in the test split"):
        open_task("mlm", [file])._sentences("test")
    with pytest.raises(DataError, match="mlm needs one or several files of text"):
        open_task("mlm")
    with pytest.raises(DataError, match="mlm splits its own files"):
        open_task("mlm", [file], validation_files=[file])


def test_a_run_adds_the_means_of_both_losses(task, tmp_path):

    config = BERTConfig(
        task.tokenizer.vocab_size, d_model=32, n_heads=2, n_layers=1, n_ctx=41, dropout=0.0
    )
    seed = next(
        seed for seed in range(1, 50) if task.collate(next(task.batches(seed))).n_classes > 1
    )
    recipe = Recipe(
        steps=3, warmup=20, label_smoothing=0.0, validate_every=3, score_cases=5, seed=seed
    )
    trainer = Trainer(task, config, recipe, tmp_path, torch.device("cpu"), "made by the tests")
    batch = task.collate(next(task.batches(recipe.seed)))
    with torch.no_grad():
        losses = masked_tokens(trainer.model(*batch.inputs), batch, 0.0)
    wanted = float(losses[LABEL_BATCH]) / batch.n_labels + float(losses[CLASS_BATCH]) / max(
        1, batch.n_classes
    )
    records = list(trainer.train())
    assert records[0].loss == pytest.approx(wanted, rel=1e-4)
    assert records[0].labels == batch.n_labels + batch.n_classes
    whole = task.collate(task.validation())
    with torch.no_grad():
        losses = masked_tokens(trainer.best_model.eval()(*whole.inputs), whole, 0.0)
    wanted = (
        float(losses[LABEL_BATCH]) / whole.n_labels + float(losses[CLASS_BATCH]) / whole.n_classes
    )
    assert records[-1].validation["validation loss"] == pytest.approx(wanted, rel=1e-4)
    assert "masked accuracy" in records[-1].validation
