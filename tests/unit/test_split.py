"""Equivalent texts are either held out or trained on, never both; validation and test sets from separate files."""

import string
from pathlib import Path

import pytest

from models.tasks import DataError
from models.tasks.pair_files import read_pairs
from models.tasks.split import same_text, sets_of, split_of
from models.tasks.translation import TranslationTask


def test_the_split_does_not_see_case_spacing_or_unicode_form():
    for source in ("We like him.", "Café"):
        same = {
            split_of(s)
            for s in (
                source,
                source.upper(),
                f"  {source.replace(' ', '   ')} ",
                source.replace("é", "e\u0301"),
            )
        }
        assert len(same) == 1
    # Golden: a change would put trained sentences into the test split of every shipped checkpoint.
    golden = {
        "case 96": "test",
        "case 168": "test",
        "case 194": "validation",
        "case 288": "validation",
        "case 1": "train",
    }
    assert {source: split_of(source) for source in golden} == golden


SAME = [
    ("I'm ready.", "I am ready!"), ("I’m ready", "i AM  ready"), ("Don't go.", "Do not go."), ("He can't", "He cannot"),
    ("He can't", "He can not!"), ("I won't.", "I will not."), ("I'll not", "I won't"), ("We shan't", "We shall not"),
    ("It's too dark", "It is too dark."), ("It's been done", "It has been done"), ("Let's go!", "Let us go."),
    ("You'd better not", "You had better not"), ("I'd like it", "I would like it"), ("They've gone", "They have gone"),
    ("He isn't old", "He's not old"), ("They aren't", "They're not"), ("I haven't", "I've not"), ("He wouldn't", "He'd not"),
    ("How're you?", "How are you"), ("“Well”, he said", "Well he said..."), ("Cafe\u0301", "CAFÉ!"), ("ﬁne", "fine"),
    ("snake_case", "snake case"), ("¿Qué?", "Qué"), ("She hasn't left", "She's not left"), ("He hadn't left", "He had not left"),
    ("You shall not", "You'll not"), ("He'd not left", "He hadn't left"),
]  # fmt: skip
OTHER = [
    ("I am ready", "I am not ready"), ("I can go", "I can't go"), ("He is 5", "He is 6"), ("Café", "Cafe"), ("Go!", "Going!"),
    ("!", "?"), ("किताब", "कतब"), ("She is", "She was"), ("We will", "We won't"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME)
def test_equivalent_texts(one, other):
    assert same_text(one) == same_text(other)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_texts_that_are_not_equivalent(one, other):
    assert same_text(one) != same_text(other)


def text_of_set(name: str, i: int) -> str:
    """Return the i-th of the texts that the hash puts into that set."""
    found = [text for n in range(1000) if split_of(text := f"text {n}") == name]
    return found[i]


def punctuated(text: str, name: str) -> str:
    """Append punctuation to a text until the hash puts it into that set."""
    signs = (
        text + "".join(string.punctuation[n // 30**k % 30] for k in range(3)) for n in range(27000)
    )
    return next(s for s in signs if split_of(s) == name)


def test_equivalent_texts_are_in_one_set_only():
    """Training comes before test and validation; a text in a later set is left out, not moved."""
    alone = {name: text_of_set(name, 0) for name in ("train", "test", "validation")}
    trained, tested = text_of_set("train", 1), text_of_set("test", 1)
    wanted = {text: name for name, text in alone.items()}
    wanted |= {
        trained: "train",
        punctuated(trained, "test"): "left out",
        punctuated(trained, "validation"): "left out",
    }
    wanted |= {tested: "test", punctuated(tested, "validation"): "left out"}
    for order in (wanted, reversed(wanted)):
        assert sets_of(order, {}) == wanted


def test_a_given_set_is_removed_from_training_and_replaces_the_hashed_set():
    trained, tested, validated = (text_of_set(name, 0) for name in ("train", "test", "validation"))
    sources = [trained, tested, validated, text_of_set("train", 1)]
    belongs = sets_of(sources, {"test": [trained.upper() + "!"]})
    assert belongs == dict(zip(sources, ["taken out", "train", "validation", "train"], strict=True))
    belongs = sets_of(sources, {"test": [validated], "validation": [tested]})
    assert belongs == dict(zip(sources, ["train", "taken out", "taken out", "train"], strict=True))


def aligned(tmp_path, rows, name="extra") -> list[Path]:
    paths = [tmp_path / f"{name}.en", tmp_path / f"{name}.fr"]
    for side, path in enumerate(paths):
        path.write_text("".join(f"{row[side]}\n" for row in rows), "utf-8")
    return paths


ROWS = [(f"number {n}", f"nombre {n}") for n in range(400)]


@pytest.fixture
def data_file(tmp_path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{s}\t{t}\n" for s, t in ROWS))
    return path


def test_test_and_validation_files_of_the_user(tmp_path, data_file):
    test = aligned(
        tmp_path, [("Number 3.", "trois"), ("Number 3.", "le trois"), ("unheard of", "inouï")]
    )
    valid = tmp_path / "valid.tsv"
    valid.write_text("number 5\tcinq\nNumber 3!\ttrois\n")
    task = TranslationTask(data_file, validation_files=valid, test_files=test)
    assert {c.source: c.references for c in task.held_out()} == {
        "Number 3.": ("trois", "le trois"),
        "unheard of": ("inouï",),
    }
    assert [c.source for c in task.held_out(validation=True)] == [
        "number 5"
    ]  # the other one is equivalent to a test source
    assert task._split["train"] == [row for row in ROWS if row[0] not in ("number 3", "number 5")]
    data = task.data()
    assert data["pairs"] == {"train": 398, "test": 3, "validation": 1}
    assert (data["taken out"], data["left out"]) == (2, 1)
    assert data["test file"]["file"] == "extra.en + extra.fr"
    assert data["validation file"]["file"] == "valid.tsv"
    only_test = TranslationTask(data_file, test_files=test)
    hashed = {row for row in ROWS if split_of(row[0]) == "validation"}
    assert set(only_test._split["validation"]) == hashed - {ROWS[3]}
    assert only_test.data()["pairs"]["train"] == 399 - len(hashed)


def test_two_aligned_files_equal_the_tab_separated_one(tmp_path, data_file):
    one, two = TranslationTask(data_file), TranslationTask(aligned(tmp_path, ROWS))
    assert one._split == two._split
    assert one.data()["pairs"] == two.data()["pairs"]
    assert one.data()["sha256"] != two.data()["sha256"]


@pytest.mark.parametrize(
    ("sides", "message"),
    [
        (("a\nb\n", "un\n"), r"a\.en has 2 lines, .*a\.fr has 1; .*line by line"),
        (("a\n\n", "un\ndeux\n"), r"a\.en, line 2: empty, but .*a\.fr has 'deux' there"),
        (("a\nb\n", "un\n \n"), r"a\.fr, line 2: empty, but .*a\.en has 'b' there"),
        (("\n", "\n"), r"a\.en and .*a\.fr: holds no sentence pairs"),
        (("a\n", None), r"a\.fr: no such file"),
    ],
)
def test_two_files_that_do_not_match(tmp_path, sides, message):
    paths = [tmp_path / "a.en", tmp_path / "a.fr"]
    for path, text in zip(paths, sides, strict=True):
        if text is not None:
            path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_pairs(paths)


def test_aligned_files_may_share_empty_lines(tmp_path):
    assert read_pairs(aligned(tmp_path, [("a", "un"), ("", " "), ("b", "deux")])) == [
        ("a", "un"),
        ("b", "deux"),
    ]


def test_three_files_are_too_many(tmp_path):
    with pytest.raises(DataError, match="one tab-separated file or two aligned ones, got 3 files"):
        read_pairs(["a", "b", "c"])
