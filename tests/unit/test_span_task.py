"""The task of answering questions: rows and labels, a user's files, scores."""

import re

import pytest
import torch
import torch.nn.functional as F
from checked import unchecked
from small import random_bert, words_of

import models
from models.architectures.bert import BERTConfig
from models.model_card import CARD
from models.tasks import DataError, open_task
from models.tasks.questions import SpanTask, answer_texts, last_place, read_questions
from models.training.objectives import LABEL_BATCH
from models.training.recipe import Recipe
from models.training.task import Case
from models.training.trainer import Trainer


@pytest.fixture(scope="module")
def task() -> SpanTask:
    return SpanTask(batch_size=7)


@unchecked()
def test_labels_are_the_first_and_the_last_token_of_the_answer(task):
    for example in next(task.batches(3)):
        ids, segments, (first, last) = example
        tokens = task.tokenizer.tokens(ids)
        assert first == last
        assert segments[first] == 1
        assert (tokens[0], tokens.count("[SEP]"), tokens[-1]) == ("[CLS]", 2, "[SEP]")
        asked, told = (
            " ".join(tokens[1 : tokens.index("[SEP]")]),
            tokens[tokens.index("[SEP]") + 1 : -1],
        )
        assert asked.startswith("where is")
        assert tokens[first] in told
        assert tokens[first + 1] == "."


def test_an_answer_of_several_words_and_one_in_the_question_too(tmp_path):
    file = tmp_path / "own.tsv"
    file.write_text("Who is in the garden?\tIn the garden sat Ann Lee, Ann Lee.\tAnn Lee\n")
    (story,) = read_questions(file)
    task = SpanTask(tokenizer=words_of("Who is in the garden? In the garden sat Ann Lee, Ann Lee."))
    ids, segments, (first, last) = task.example(story)
    assert task.tokenizer.tokens(ids)[first : last + 1] == ("ann", "lee")
    assert first == list(segments).index(1) + 4  # its first occurrence in the context


@pytest.mark.slow
@unchecked()
def test_batches_and_held_out_questions_are_the_same_again(task):
    again = SpanTask(batch_size=7)
    assert next(again.batches(3)) == next(task.batches(3))
    assert next(task.batches(4)) != next(task.batches(3))
    assert task.held_out(9) == SpanTask().held_out(9)
    assert not {case.source for case in task.held_out(500)} & {
        case.source for case in task.held_out(500, validation=True)
    }


def test_collating_pads_ids_and_keeps_both_ends(task):
    examples = next(task.batches(3))
    batch = task.collate(examples)
    assert batch.labels.tolist() == [list(ends) for *_, ends in examples]
    for row, (ids, segments, _) in enumerate(examples):
        assert batch.inputs[0][row].tolist() == [
            *ids,
            *[task.tokenizer.pad_id] * (batch.inputs[0].shape[1] - len(ids)),
        ]
        assert batch.inputs[1][row, : len(ids)].tolist() == list(segments)
    assert batch.n_labels == 14


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_covers_both_ends_and_is_that_of_each_question_alone(task, smoothing):
    """In a batch, shorter rows are padded; torch's own loss of each row alone has no padding."""
    examples = next(task.batches(3))
    model = random_bert(vocab_size=task.tokenizer.vocab_size, head="span", n_ctx=128)
    batch = task.collate(examples)
    assert len({len(ids) for ids, *_ in examples}) > 1
    with torch.no_grad():
        loss = task.objective(model(*batch.inputs), batch, smoothing)[LABEL_BATCH]
        wanted = 0.0
        for example in examples:
            alone = task.collate([example])
            answers, (ends,) = model(*alone.inputs), alone.labels
            wanted += sum(
                float(F.cross_entropy(answers[name][0], end, label_smoothing=smoothing))
                for name, end in zip(("start", "end"), ends, strict=True)
            )
    torch.testing.assert_close(loss, torch.tensor(wanted), rtol=1e-5, atol=1e-4)


def test_answers_are_those_of_each_question_alone(task):
    model = random_bert(vocab_size=task.tokenizer.vocab_size, head="span", n_ctx=61)
    asked = [case.source for case in task.held_out(23)]
    together = answer_texts(model, task.tokenizer, asked)
    assert together == [answer_texts(model, task.tokenizer, [one])[0] for one in asked]
    assert all(
        answer in context or not answer
        for answer, (_, context) in zip(together, asked, strict=True)
    )
    assert answer_texts(
        model, task.tokenizer, [("Where is Mary?", "Mary went to the garden. " * 12)]
    ) == [""]


def test_the_measure_counts_exact_answers_and_each_number_of_facts(task, monkeypatch):
    told = task._of("test", 40)
    right = [
        story.answer if i % 4 else "nowhere" for i, story in enumerate(told)
    ]  # every fourth wrong: all of one fact
    monkeypatch.setattr("models.tasks.questions.answer_texts", lambda *given: right)
    found = task.evaluate(random_bert(head="span"), 40).measures
    assert found["answer exact match"] == 75
    assert (found["one-fact exact match"], found["two-fact exact match"]) == (50, 100)
    last = [last_place(story.context) == story.answer for story in told]
    assert found["last place named exact match"] == 100 * sum(last) / 40
    assert 10 < found["last place named exact match"] < 80


def test_the_last_place_is_the_one_mentioned_last():
    assert (
        last_place("Mary went to the garden. John went to the park. Mary took the milk.") == "park"
    )


LINES = [
    f"Where is number {i}?\tNumber {i} sat in room {i}, text {i}.\troom {i}" for i in range(300)
]


@unchecked()
def test_a_users_file_is_split_by_its_texts(tmp_path):
    file = tmp_path / "own.tsv"
    file.write_text(
        "\n".join([*LINES, "", *(line.replace("Where is", "And where is") for line in LINES)])
    )
    task = open_task("span", [file])
    parts = {part: task._of(part, None) for part in ("train", "validation", "test")}
    texts = [{story.context for story in parts[part]} for part in parts]
    assert sum(map(len, texts)) == len(set.union(*texts)) == 300
    assert sum(map(len, parts.values())) == 600
    assert task.data()["questions"] == {
        part: len(parts[part]) for part in ("train", "test", "validation")
    }
    assert task.licence == "not stated; that of own.tsv"
    model = random_bert(vocab_size=task.tokenizer.vocab_size, head="span", n_ctx=64)
    assert list(task.evaluate(model).measures) == ["answer exact match"]
    first = [next(task.batches(seed)) for seed in (1, 1, 2)]
    assert first[0] == first[1] != first[2]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["a?\tb c\tb", "what?\ta text\tanother"],
            "own.tsv, line 2: the answer 'another' is not in its context",
        ),
        (
            ["a?\tb c\tb", "", "what?\ta text"],
            r"own.tsv, line 3: expected question, tab, context, tab, answer; got 'what\?\\ta text'",
        ),
        (["a?\t\tb"], "line 1: expected question"),
        ([""], "own.tsv: holds no questions"),
    ],
)
def test_an_unusable_file_is_named_with_its_line(tmp_path, lines, message):
    file = tmp_path / "own.tsv"
    file.write_text("\n".join(lines))
    with pytest.raises(DataError, match=message):
        open_task("span", [file])


def test_too_few_or_too_long_questions_are_reported(tmp_path):
    file = tmp_path / "own.tsv"
    file.write_text("\n".join(LINES[:2]))
    with pytest.raises(DataError, match="2 questions, too few for a test split"):
        open_task("span", [file]).held_out()
    file.write_text("\n".join(LINES))
    with pytest.raises(DataError, match="every question with its text is longer than 5 tokens"):
        open_task("span", [file], n_ctx=5).validation()
    with pytest.raises(
        DataError, match="span takes one file of questions, contexts and answers, got 2"
    ):
        open_task("span", [file, file])
    with pytest.raises(
        DataError,
        match="span splits its own files; --valid and --test apply to translation only",
    ):
        open_task("span", [file], test_files=[file])


@pytest.mark.slow
def test_a_run_learns_and_is_recorded(tmp_path):
    """It answers four of five short questions after some dozen steps; the answer is always the last word."""
    file = tmp_path / "own.tsv"
    words = [f"{a}{b}" for a in "abcdefgh" for b in "klmnopqrs"]
    pairs = [(words[i % 72], words[(i * 7) % 72]) for i in range(504)]
    file.write_text(
        "\n".join(f"Which word comes last?\tHere {first} {last}.\t{last}" for first, last in pairs)
    )
    task = open_task("span", [file], n_ctx=29)
    sizes = {
        "d_model": 32,
        "n_heads": 2,
        "n_layers": 1,
        "n_ctx": 29,
        "dropout": 0.0,
        "head": "span",
        "init": "xavier",
    }
    config = BERTConfig(task.tokenizer.vocab_size, **sizes)
    recipe = Recipe(
        steps=60,
        warmup=20,
        learning_rate=0.3,
        label_smoothing=0.0,
        validate_every=60,
        score_cases=5,
    )
    trainer = Trainer(
        task, config, recipe, tmp_path / "run", torch.device("cpu"), "made by the tests"
    )
    records = list(trainer.train())
    assert records[-1].validation["answer exact match"] >= 80
    assert records[0].loss > 5 * records[-1].loss
    assert trainer.record()["examples"][0] == list(task.held_out(1, validation=True)[0].source)
    assert isinstance(task.held_out(1)[0], Case)


def test_the_baseline_of_the_last_place_is_recounted() -> None:
    """It is counted with a regular expression over the held-out stories; the model's card and its record agree to two decimals."""
    scope = models.load("bert-where", device="cpu")
    cases = SpanTask(tokenizer=scope.tokenizer).held_out()
    right = sum(
        re.findall(r"\bto the (\w+)", case.source[1])[-1:] == [*case.references] for case in cases
    )
    assert (right, len(cases)) == (1121, 2000)
    assert scope.training["scores"]["last place named exact match"] == pytest.approx(
        100 * right / len(cases)
    )
    text = (scope.path / CARD).read_text("utf-8")
    assert f"the last place named is right in {100 * right / len(cases):.2f} %" in text
