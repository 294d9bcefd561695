"""The task of labelled texts: files, folds, L3 = L2 + λ·L1, runs that start from a checkpoint, scores."""

import hashlib
import json
import math
import random
from collections import Counter
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from checked import unchecked
from small import random_bert, random_gpt

import models
from models import cli
from models.architectures.gpt import GPTConfig
from models.checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from models.runs.scope import Scope
from models.tasks import DataError, open_task
from models.tasks.classify import ClassifyTask, LabelledText, read_labelled
from models.tasks.split import FOLDS, fold_of, same_text
from models.tokenizers.base import Tokenizer
from models.training.bag_of_words import NaiveBayes, text_words
from models.training.objectives import CLASS_BATCH, LABEL_BATCH
from models.training.recipe import Recipe
from models.training.start import Start
from models.training.trainer import Trainer

CPU = torch.device("cpu")


def sentences(n: int, seed: int = 1) -> list[tuple[str, str]]:
    """Return sentences of five words, one of which reveals the class."""
    rng, found = random.Random(seed), {}
    while len(found) < n:
        kind = rng.choice(("bad", "good"))
        words = [rng.choice("abcdefgh") + rng.choice("ou") + rng.choice("lnr") for _ in range(4)]
        words.insert(rng.randrange(5), {"bad": "poor", "good": "fine"}[kind])
        found[" ".join(words)] = kind
    return list(found.items())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("labelled")
    first, second = folder / "first.tsv", folder / "second.tsv"
    rows = sentences(211)
    first.write_text("\n".join(f"{text}\t{label}" for text, label in rows[:150]))
    second.write_text(
        "\n\n".join(f" {text} \t{label} " for text, label in rows[140:])
    )  # ten of them twice
    return [first, second]


@pytest.fixture(scope="module")
def task(files: list[Path]) -> ClassifyTask:
    return open_task("classify", files, vocab_size=300, n_ctx=17, max_tokens=300, lm_weight=0.25)


def texts_of(task: ClassifyTask, part: str) -> set[str]:
    return {same_text(text.texts[0]) for text in task._split[part]}


def test_each_text_appears_once_and_in_one_set(task):
    counts = task.data()["texts"]
    assert sum(counts.values()) + task.data()["left out"] == 211
    parts = [texts_of(task, part) for part in ("train", "validation", "test")]
    assert [len(part) for part in parts] == [counts["train"], counts["validation"], counts["test"]]
    assert len(set.union(*parts)) == sum(map(len, parts))
    assert task.data()["classes"] == dict(
        sorted(Counter(label for _, label in sentences(211)).items())
    )
    assert list(task.data()["classes"]) == list(task.labels) == ["bad", "good"]


@unchecked()
def test_five_folds_test_on_every_text_once(files):
    words = [f"word {i}" for i in range(3000)]
    times = Counter(
        word for fold in range(FOLDS) for word in words if fold_of(word, fold) == "test"
    )
    assert set(times.values()) == {1}
    assert len(times) == 3000
    for fold in range(FOLDS):
        shares = Counter(fold_of(word, fold) for word in words)
        assert shares["test"] / 3000 == pytest.approx(0.2, abs=0.03)
        assert shares["validation"] / 3000 == pytest.approx(0.1, abs=0.03)
    assert fold_of("Word 7 ", 3) == fold_of("word 7", 3)
    one, other = (open_task("classify", files, fold=fold) for fold in (0, 3))
    assert not texts_of(one, "test") & texts_of(other, "test")


@unchecked()
def test_fold_k_tests_on_the_kth_fifth_of_the_hashes(files):
    """The hash is blake2b of the plain text; the fifth after the tested one is validated on, and tested on by the next fold."""
    for word in (f"Word  {i}" for i in range(997)):
        digest = hashlib.blake2b(" ".join(word.lower().split()).encode(), digest_size=8).digest()
        bucket = int(digest.hex(), 16) % 100
        found = [fold_of(word, fold) for fold in range(FOLDS)]
        assert found.index("test") == bucket // 20
        validated = [fold for fold in range(FOLDS) if found[fold] == "validation"]
        assert validated == ([(bucket // 20 - 1) % 5] if bucket % 20 < 10 else [])
    tested = {fold: texts_of(open_task("classify", files, fold=fold), "test") for fold in (1, 4)}
    first = open_task("classify", files, fold=0)
    assert len(texts_of(first, "validation") & tested[1]) > 3
    assert not texts_of(first, "validation") & tested[4]


def test_rows_are_closed_cut_and_labelled(task):
    text = "a b c d e f g h i j k l m n o p q r s t u v w x y z"
    short, long = (
        task.example(LabelledText(("fine",), "good")),
        task.example(LabelledText((text,), "bad")),
    )
    assert (short[2], long[2]) == ((1,), (0,))
    assert task.tokenizer.tokens(short[0])[0] == task.tokenizer.tokens(long[0])[0] == "<s>"
    assert task.tokenizer.tokens(short[0])[-1] == task.tokenizer.tokens(long[0])[-1] == "<e>"
    assert len(long[0]) == 17
    assert list(long[0][1:-1]) == list(task.tokenizer.encode(text).ids[:15])
    batch = task.collate([short, long])
    assert batch.inputs[0].shape == (2, 17)
    assert batch.inputs[0][0, len(short[0]) :].tolist() == [task.tokenizer.pad_id] * (
        17 - len(short[0])
    )
    assert batch.labels[0].tolist() == [*short[0][1:], *[-100] * (18 - len(short[0]))]
    assert batch.classes.tolist() == [1, 0]


def test_pairs_are_read_with_a_delimiter_and_split_by_the_first(tmp_path):
    file = tmp_path / "pairs.tsv"
    rows = [
        f"{text}\t{other}\t{i % 3}"
        for text, _ in sentences(97)
        for i, other in enumerate(("is it", "it is", "is"))
    ]
    file.write_text("\n".join(rows))
    pairs = open_task("classify", file, vocab_size=300)
    assert pairs.sizes == {"classes": "0,1,2", "n_texts": 2}
    tokens = pairs.tokenizer.tokens(pairs.example(pairs._texts[0])[0])
    assert [token for token in tokens if token[0] == "<"] == ["<s>", "<$>", "<e>"]
    assert {len(case.source) for case in pairs.held_out()} == {2}
    sizes = {name: len(texts) for name, texts in pairs._split.items()}
    assert all(n % 3 == 0 for n in sizes.values())
    assert sum(sizes.values()) + pairs.data()["left out"] == 291


def test_the_same_for_bert_with_its_own_special_tokens(files):
    of_bert = open_task("classify", files, tokens="word pieces", vocab_size=200)
    ids, segments, _ = of_bert.example(LabelledText(("fine",), "good"))
    assert of_bert.tokenizer.tokens(ids) == ("[CLS]", "fine", "[SEP]")
    assert segments == [0, 0, 0]
    model = random_bert(vocab_size=of_bert.tokenizer.vocab_size, head="classes", classes="bad,good")
    found = of_bert.evaluate(model, 11).measures
    assert list(found) == [
        "accuracy",
        "bag-of-words accuracy",
        "bag-of-tokens accuracy",
        "majority accuracy",
    ]
    batch = of_bert.collate(of_bert.validation()[:3])
    assert list(of_bert.objective(model(*batch.inputs), batch, 0.0)) == [CLASS_BATCH]


@torch.no_grad()
def test_l3_by_a_second_route(task):
    """L3 = L2 + λ·L1, one text and one token at a time, through softmax and log."""
    model = random_gpt(vocab_size=task.tokenizer.vocab_size, head="classes", classes="bad,good")
    examples = task.validation()[:7]
    batch = task.collate(examples)
    losses = task.objective(model(*batch.inputs), batch, 0.0)
    l1 = l2 = 0.0
    for ids, _, (kind,) in examples:
        alone = model(torch.tensor([ids]))
        l2 -= math.log(torch.softmax(alone["classes"][0], 0)[kind])
        following = torch.softmax(alone["next token"][0], 1)
        l1 -= sum(math.log(following[i, label]) for i, label in enumerate(ids[1:]))
    assert float(losses[CLASS_BATCH]) == pytest.approx(l2, rel=1e-4)
    assert float(losses[LABEL_BATCH]) == pytest.approx(0.25 * l1, rel=1e-4)
    assert batch.n_labels == sum(len(ids) - 1 for ids, *_ in examples)
    assert batch.n_classes == 7
    smoothed = task.objective(model(*batch.inputs), batch, 0.3)
    logits = torch.cat([model(torch.tensor([ids]))["classes"] for ids, *_ in examples])
    expected = F.cross_entropy(logits, batch.classes, label_smoothing=0.3, reduction="sum")
    torch.testing.assert_close(smoothed[CLASS_BATCH], expected)
    assert smoothed[LABEL_BATCH] == losses[LABEL_BATCH]  # the text's own tokens are not smoothed


def test_naive_bayes_by_hand():
    bag = NaiveBayes([["good", "good", "day"], ["bad", "day"]], [1, 0], 2)
    assert bag.vocabulary == {"good", "day", "bad"}
    expected = [math.log(1 / 2 * 1 / 5 * 2 / 5), math.log(1 / 2 * 3 / 6 * 2 / 6)]
    assert bag.log_probs(["good", "day", "sir"]) == pytest.approx(expected)
    assert (bag.predicted(["good"]), bag.predicted(["bad"]), bag.predicted(["unknown"])) == (
        1,
        0,
        0,
    )
    assert text_words("GOOD day, sir; it isn’t 3!") == ["good", "day", "sir", "it", "isn't", "3"]


def test_baselines_are_fitted_to_the_training_texts(task):
    """One word reveals the class, so the bag of words knows it; the bag of tokens by hand; the majority is that of the training texts."""
    model = random_gpt(vocab_size=task.tokenizer.vocab_size, head="classes", classes="bad,good")
    found, cases = task.evaluate(model).measures, task.held_out()
    assert found["bag-of-words accuracy"] == 100
    rows = [
        (list(task.tokenizer.encode(text.texts[0]).ids), text.label == "good")
        for text in task._split["train"]
    ]
    bag = NaiveBayes([row for row, _ in rows], [int(good) for _, good in rows], 2)
    told = [
        bag.predicted(task.tokenizer.encode(case.source).ids) == (case.references[0] == "good")
        for case in cases
    ]
    assert found["bag-of-tokens accuracy"] == pytest.approx(100 * sum(told) / len(told))
    majority = Counter(text.label for text in task._split["train"]).most_common(1)[0][0]
    share = sum(case.references == (majority,) for case in cases) / len(cases)
    assert found["majority accuracy"] == pytest.approx(100 * share)
    scope = [
        model(torch.tensor([task.example(LabelledText((case.source,), case.references[0]))[0]]))
        for case in cases
    ]
    right = sum(
        task.labels[int(made["classes"].argmax())] == case.references[0]
        for made, case in zip(scope, cases, strict=True)
    )
    assert found["accuracy"] == pytest.approx(100 * right / len(cases))


def test_the_perplexity_of_texts_is_that_of_each_text_alone(task):
    """Token by token in float64, without a batch: nothing is predicted at padding."""
    model = random_gpt(vocab_size=task.tokenizer.vocab_size, head="classes", classes="bad,good")
    nats, lengths = 0.0, []
    for case in task.held_out(13):
        ids = task.example(LabelledText((case.source,), case.references[0]))[0]
        with torch.no_grad():
            log_probs = model(torch.tensor([ids]))["next token"][0].double().log_softmax(-1)
        nats -= sum(float(log_probs[i, token]) for i, token in enumerate(ids[1:]))
        lengths.append(len(ids) - 1)
    assert len(set(lengths)) > 2
    found = task.evaluate(model, 13).measures["text perplexity"]
    assert found == pytest.approx(math.exp(nats / sum(lengths)), rel=1e-4)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["fine\tgood", "well"], r"line 2: expected text, tab, label, or two texts and a label; got 'well'$"),
        (["fine\tgood", "", "well\t"], r"line 3: missing label after the text; got 'well'$"),
        (["fine\tgood", " \tbad"], r"line 2: missing text before the label; got 'bad'$"),
        (["fine\ta, b"], r"line 1: a label must not contain a comma; got "),
        (["fine\tgood", "a\tb\tbad"], r"line 2: has 2 texts, but the lines before have 1; got "),
        (["a\tb\tc\td"], r"line 1: expected text, tab, label"),
        (["fine\tgood", "well\tgood"], r"every text has the label 'good'; at least two classes are needed$"),
        ([""], r"holds no labelled texts$"),
        (["fine\tgood", "poor\tbad"], None),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used(tmp_path, lines, message):
    file = tmp_path / "own.tsv"
    file.write_text("\n".join(lines))
    if message is None:
        assert read_labelled([file]) == [
            LabelledText(("fine",), "good"),
            LabelledText(("poor",), "bad"),
        ]
        return
    with pytest.raises(DataError, match=message):
        ClassifyTask(file)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fold": 5}, "^fold must be 0 to 4, not 5$"), ({"lm_weight": -0.5}, "^lm_weight must be at least 0, not -0.5$"),
        ({"tokens": "words"}, "^tokens must be byte pairs or word pieces, not 'words'$"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be(files, settings, message):
    with pytest.raises(DataError, match=message):
        open_task("classify", files, **settings)


def test_a_model_of_other_classes(task):
    model = random_gpt(vocab_size=task.tokenizer.vocab_size, head="classes", classes="a,b,c")
    with pytest.raises(
        DataError, match="has the labels bad, good, but the model has the classes a, b, c$"
    ):
        task.evaluate(model)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Scope:
    """A language model whose random weights are exact in half precision."""
    folder = tmp_path_factory.mktemp("begun") / "reader"
    tokenizer = Tokenizer.byte_level([text for text, _ in sentences(211)], 300)
    save_checkpoint(
        folder,
        random_gpt(vocab_size=tokenizer.vocab_size),
        tokenizer,
        {"step": 3, "task": "language"},
    )
    return models.load(folder, device="cpu")


def start_of(scope: Scope) -> Start:
    return Start(scope.name, scope.weights_digest, scope.model.state_dict())


def run_from(
    begun: Scope, files: list[Path], folder: Path, *, new_only: bool, steps: int = 3
) -> Trainer:
    task = open_task("classify", files, tokenizer=begun.tokenizer, n_ctx=37, lm_weight=0.5)
    sizes = {
        f: getattr(begun.config, f) for f in ("d_model", "n_heads", "n_layers", "d_ff", "n_ctx")
    }
    config = GPTConfig(
        task.tokenizer.vocab_size, **sizes, head="classes", classes="bad,good", dropout=0.1
    )
    recipe = Recipe(
        steps=steps,
        warmup=5,
        learning_rate=0.5,
        label_smoothing=0.0,
        score_cases=0,
        new_only=new_only,
    )
    return Trainer(task, config, recipe, folder, CPU, "made by the tests", start_of(begun))


@pytest.mark.parametrize("new_only", [True, False])
def test_what_a_run_from_a_checkpoint_trains(begun, files, tmp_path, new_only):
    """All or none of the old weights are trained; the new tokens' rows and W_y in either case."""
    trainer = run_from(begun, files, tmp_path / "run", new_only=new_only)
    n, before = (
        begun.config.vocab_size,
        {name: value.clone() for name, value in trainer.model.state_dict().items()},
    )
    for name, old in begun.model.state_dict().items():
        assert torch.equal(before[name][: len(old)], old)
    list(trainer.train())
    saved = load_checkpoint(tmp_path / "run")
    for model in (trainer.model, trainer.averaged.module, saved.model):
        after = model.state_dict()
        assert (
            torch.equal(after["embedding.weight"][:n], before["embedding.weight"][:n]) == new_only
        )
        changed = {name for name, value in after.items() if not torch.equal(value, before[name])}
        assert changed - {"embedding.weight"} == (
            {"heads.classes.weight"} if new_only else set(before) - {"embedding.weight"}
        )
        assert not torch.equal(after["embedding.weight"][-1], before["embedding.weight"][-1])  # <e>
    assert saved.training["start"] == {"name": "reader", "weights": begun.weights_digest}
    assert saved.training["recipe"]["new_only"] == new_only
    assert saved.training["data"]["lm_weight"] == 0.5


@pytest.mark.parametrize("lm_weight", [0.0, 0.5])
def test_the_labels_of_a_step_are_those_of_its_losses(files, tmp_path, lm_weight):
    task = open_task("classify", files, vocab_size=300, n_ctx=17, lm_weight=lm_weight)
    sizes = {"d_model": 6, "n_heads": 2, "n_layers": 1, "d_ff": 7, "n_ctx": 17}
    config = GPTConfig(task.tokenizer.vocab_size, **sizes, head="classes", classes="bad,good")
    trainer = Trainer(task, config, Recipe(1, score_cases=0), tmp_path, CPU)
    examples = next(task.batches(1))
    n_tokens = sum(len(ids) - 1 for ids, *_ in examples) if lm_weight else 0
    assert next(trainer.train()).labels == len(examples) + n_tokens


def test_weights_of_another_size_are_no_start(begun, files, tmp_path):
    task = open_task("classify", files, tokenizer=begun.tokenizer)
    config = GPTConfig(
        task.tokenizer.vocab_size,
        d_model=6,
        n_heads=3,
        n_layers=2,
        head="classes",
        classes="bad,good",
    )
    with pytest.raises(
        ValueError,
        match=r"^embedding.weight must have shape \(\d+, 6\), but in reader it has \(\d+, 15\)$",
    ):
        Trainer(task, config, Recipe(steps=1), tmp_path, CPU, "", start_of(begun))


def test_new_only_is_refused_without_a_starting_checkpoint(files, tmp_path):
    task = open_task("classify", files, vocab_size=300)
    config = GPTConfig(
        task.tokenizer.vocab_size,
        d_model=6,
        n_heads=3,
        n_layers=1,
        head="classes",
        classes="bad,good",
    )
    with pytest.raises(ValueError, match="^new_only needs a starting checkpoint"):
        Trainer(task, config, Recipe(steps=1, new_only=True), tmp_path, CPU)


def test_a_run_is_resumed_from_the_start_it_had(begun, files, tmp_path):
    trainer = run_from(begun, files, tmp_path / "run", new_only=False, steps=1)
    list(trainer.train())
    assert run_from(begun, files, tmp_path / "run", new_only=False, steps=1).resume() == 1
    other = run_from(begun, files, tmp_path / "run", new_only=False, steps=1)
    other.start = Start("another", "0" * 64, {})
    with pytest.raises(CheckpointError, match="that run started from reader, not another"):
        other.resume()


@pytest.mark.slow
def test_the_commands(begun, files, tmp_path, capsys):
    out, data = tmp_path / "judge", [str(file) for file in files]
    small = [
        "--steps",
        "60",
        "--warmup",
        "10",
        "--learning-rate",
        "0.3",
        "--validate-every",
        "60",
        "--score-cases",
        "0",
    ]
    start = [
        "--from",
        str(begun.path),
        "--classes",
        "awful,lovely",
        "--fold",
        "2",
        "--device",
        "cpu",
    ]
    train = ["train", "classify", "--data", *data, *start, *small]
    assert cli.main([*train, "--out", str(out)]) == 0
    record = json.loads((out / "training.json").read_text())
    assert list(record["scores"]) == [
        "held-out accuracy",
        "bag-of-words accuracy",
        "bag-of-tokens accuracy",
        "majority accuracy",
        "text perplexity",
        "cases",
    ]
    assert record["scores"]["held-out accuracy"] > 80  # one word says the class
    assert (record["data"]["fold"], record["data"]["lm_weight"], record["start"]["name"]) == (
        2,
        0.5,
        "reader",
    )
    capsys.readouterr()
    assert cli.main(["evaluate", str(out), "--data", *data, "--device", "cpu"]) == 0
    said = capsys.readouterr()
    assert f"{record['scores']['held-out accuracy']:,.3f}" in said.out
    assert "not the data" not in said.err  # the fold is the record's
    assert cli.main(["decode", str(out), "bol fine don", "--device", "cpu"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first in ("awful", "lovely")
    assert second.startswith("classes: awful ")
    assert cli.main(["inspect", str(out)]) == 0
    said = capsys.readouterr().out
    assert "reader" in said
    assert "heads.classes.weight" in said


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--model", "bert", "--from", "gpt"], "--from must be a bert checkpoint; gpt is a gpt"),
        (
            ["--model", "bert", "--lm-weight", "1"],
            "--lm-weight does not apply to the task classify",
        ),
        (
            ["--classes", "one,two,three"],
            "has the labels bad, good, but the model has the classes one, two, three",
        ),
        (["--from", "gpt", "--d-model", "48"], "must have shape"),
    ],
)
def test_flags_that_do_not_fit(files, tmp_path, capsys, flags, message):
    assert (
        cli.main(
            [
                "train",
                "classify",
                "--data",
                *map(str, files),
                *flags,
                "--out",
                str(tmp_path),
                "--device",
                "cpu",
            ]
        )
        == 1
    )
    assert message in capsys.readouterr().err


def test_the_task_requires_a_file(capsys):
    assert cli.main(["train", "classify"]) == 1
    assert (
        "classify needs one or several tables of texts and labels (--data FILE …)"
        in capsys.readouterr().err
    )
    assert cli.main(["train", "dates", "--from", "gpt"]) == 1
    assert "--from does not apply to the task dates" in capsys.readouterr().err
