"""Good and bad files of pairs, the split, and batches bounded by their number of tokens."""

import gzip
import hashlib
import random

import pytest

from models.tasks import DataError, open_task
from models.tasks.pair_files import file_record, read_pairs
from models.tasks.split import split_of
from models.tasks.translation import TATOEBA_LICENCE, TranslationTask
from models.tokenizers.base import END, PAD, START, Tokenizer
from models.training.batches import NO_LABEL, bucket_by_length, collate

WORDS = [
    ("one", "un"),
    ("red", "rouge"),
    ("big", "grand"),
    ("old", "vieux"),
    ("dog", "chien"),
    ("cat", "chat"),
    ("I", "je"),
]


def pairs(n: int) -> list[tuple[str, str]]:
    """Return n different sources of one to eleven words; every second one has a second translation."""
    rng, rows = random.Random(5), {}
    while len(rows) < n:
        words = rng.choices(WORDS, k=rng.randint(1, 11))
        rows.setdefault(" ".join(w for w, _ in words), " ".join(w for _, w in words))
    again = [(source, f"{target} !") for source, target in list(rows.items())[::2]]
    return [*rows.items(), *again]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "pairs.tsv"
    path.write_text(
        "".join(f"{source}\t{target}\tmore\n" for source, target in pairs(1009)), "utf-8"
    )
    return path


@pytest.fixture(scope="module")
def task(file):
    return TranslationTask(file, vocab_size=131, max_tokens=211)


def gz(text: str) -> bytes:
    return gzip.compress(text.encode(), mtime=0)


LONG = "".join(f"{source}\t{target}\n" for source, target in pairs(200))
DAMAGED = bytearray(gz(LONG))
DAMAGED[10] = 7  # a block of an unknown type
BAD_FILES = {
    "one column": (
        "a.tsv",
        b"a\tb\nonly one column\n",
        "line 2: expected source, tab, target; got 'only one column'",
    ),
    "empty target": ("a.tsv", b"a\t \n", "line 1: expected source, tab, target; got 'a'"),
    "no lines": ("a.tsv", b"", "holds no sentence pairs"),
    "blank lines": ("a.tsv", b"\n  \n\t\n", "holds no sentence pairs"),
    "Latin-1": (
        "a.tsv",
        "été\tsummer\n".encode("latin-1"),
        r"not UTF-8 text \(invalid continuation byte\)",
    ),
    "Latin-1 in a later line": (
        "a.tsv",
        LONG.encode() * 40 + "été\tsummer\n".encode("latin-1"),
        r"not UTF-8 text \(invalid continuation byte after line 1[12],[0-9]{3}\)",
    ),
    "UTF-16": ("a.tsv", "été\tsummer\n".encode("utf-16"), "not UTF-8 text"),
    "truncated gz": ("a.tsv.gz", gz(LONG)[:-100], "cannot be read: Compressed file ended"),
    "damaged gz": ("a.tsv.gz", bytes(DAMAGED), "cannot be read: .*invalid block type"),
    "not gz at all": ("a.tsv.gz", b"a\tb\n", "cannot be read: Not a gzipped file"),
    "binary": ("a.tsv", bytes(range(256)), "wanted source, tab, target|not UTF-8"),
}


@pytest.mark.parametrize(("name", "content", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_named_with_its_fault(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as error:
        read_pairs(path)
    assert str(error.value).startswith(str(path))
    assert len(str(error.value)) < len(str(path)) + 200


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.tsv: no such file"):
        read_pairs(tmp_path / "nowhere.tsv")
    with pytest.raises(DataError, match=r"cannot be read: .*directory"):
        read_pairs(tmp_path)


def test_plain_and_gz_columns_blank_lines_and_windows_files(tmp_path):
    wanted = [("Go.", "Va !"), ("Été", "夏")]
    text = "Go.\tVa !\tCC-BY\n\n  Été \t夏\n"
    for name, content in {
        "a.tsv": text.encode(), "a.tsv.gz": gz(text), "b.tsv": text.replace("\n", "\r\n").encode("utf-8-sig"),
    }.items():  # fmt: skip
        (tmp_path / name).write_bytes(content)
        assert read_pairs(tmp_path / name) == wanted


def test_training_and_held_out_share_no_source(task):
    trained = {tuple(source) for source, _ in task._train}
    for validation in (False, True):
        cases = task.held_out(validation=validation)
        assert cases
        assert all(split_of(c.source) == ("validation" if validation else "test") for c in cases)
        assert not trained & {
            tuple(ids) for ids in task.tokenizer.encode_many([c.source for c in cases])
        }
    sizes = task.data()["pairs"]
    assert sum(sizes.values()) == len(pairs(1009))
    assert 0 < sizes["validation"] < sizes["test"] < 0.05 * sizes["train"]


def test_held_out_cases_have_every_translation_and_a_fixed_order(task):
    cases = task.held_out()
    rows = pairs(1009)
    for case in cases:
        assert list(case.references) == [target for source, target in rows if source == case.source]
    assert {len(c.references) for c in cases} == {1, 2}
    assert task.held_out(3) == cases[:3]
    assert [c.source for c in cases] != sorted(c.source for c in cases)
    digests = [hashlib.blake2b(c.source.encode()).digest() for c in cases]
    assert digests == sorted(digests)


def test_batches_are_bounded_by_their_padded_tokens(task):
    batches = task.batches(seed=3)
    n_pairs, seen, sizes = len(task._train), [], []
    while len(seen) < n_pairs:
        batch = next(batches)
        padded = task.collate(batch)
        assert sum(ids.numel() for ids in padded.inputs) <= 211
        sizes.append(len(batch))
        seen += [(tuple(s), tuple(t)) for s, t in batch]
    assert sorted(seen) == sorted(
        (tuple(s), tuple(t)) for s, t in task._train
    )  # one epoch, each pair once
    assert max(sizes) > 2 * min(sizes)  # short pairs come in larger batches


def test_batches_depend_on_the_seed_alone(task):
    def some(seed: int) -> list:
        return [batch for batch, _ in zip(task.batches(seed), range(23), strict=False)]

    assert some(3) == some(3) != some(4)


def test_the_second_epoch_comes_in_another_order(task):
    epochs, batches = [], task.batches(3)
    for _ in range(2):
        seen = []
        while len(seen) < len(task._train):
            seen += [(tuple(s), tuple(t)) for s, t in next(batches)]
        epochs.append(seen)
    assert sorted(epochs[0]) == sorted(epochs[1])
    assert epochs[0] != epochs[1]


def test_batches_waste_little_on_padding():
    rng = random.Random(1)
    lengths = [(n := rng.randint(1, 40), max(1, n + rng.randint(-3, 3))) for _ in range(3001)]
    batches = bucket_by_length(lengths, 997, rng)
    real = sum(lengths[i][0] + lengths[i][1] + 2 for batch in batches for i in batch)
    padded = sum(
        len(b) * (max(lengths[i][0] for i in b) + max(lengths[i][1] for i in b) + 2)
        for b in batches
    )
    assert real > 0.9 * padded


def test_a_pair_longer_than_the_bound_is_a_batch_of_its_own():
    assert sorted(bucket_by_length([(50, 50), (1, 1), (1, 1)], 11, random.Random(1))) == [
        [0],
        [1, 2],
    ]


def test_a_batch_may_be_just_as_large_as_the_bound():
    """Two pairs of one token on each side, ends included, have 2 · (2 + 2) padded tokens."""
    assert [len(batch) for batch in bucket_by_length([(1, 1)] * 4, 8, random.Random(1))] == [2, 2]
    assert [len(batch) for batch in bucket_by_length([(1, 1)] * 4, 7, random.Random(1))] == [
        1,
        1,
        1,
        1,
    ]
    assert [len(batch) for batch in bucket_by_length([(1, 2)] * 4, 9, random.Random(1))] == [
        1,
        1,
        1,
        1,
    ]  # 2 · (2 + 3) are too many


def test_an_epoch_of_several_pools_has_every_pair_once_in_no_order_of_length():
    lengths = [(1 + i % 7, 1 + i % 5) for i in range(20_003)]
    batches = bucket_by_length(lengths, 120, random.Random(1))
    assert sorted(i for batch in batches for i in batch) == list(range(20_003))
    longest = [max(lengths[i][1] for i in batch) for batch in batches]
    assert longest[:50] != sorted(longest[:50])
    of = [
        {frozenset(batch) for batch in bucket_by_length([(3, 3)] * 100, 40, random.Random(seed))}
        for seed in (1, 2)
    ]
    assert not of[0] & of[1]  # pairs of one length meet others in another epoch


def test_collating_shifts_the_target_right():
    batch = collate([([7, 8, 9], [5]), ([7], [5, 6])], Tokenizer.characters("abcdef"))
    source, target = batch.inputs
    assert source.tolist() == [[7, 8, 9, END], [7, END, PAD, PAD]]
    assert target.tolist() == [[START, 5, PAD], [START, 5, 6]]
    assert batch.labels.tolist() == [[5, END, NO_LABEL], [5, 6, END]]


def test_the_vocabulary_is_learned_on_both_sides_of_the_training_pairs_alone(task):
    def learned(*names: str, sides: slice = slice(None)) -> str:
        return Tokenizer.bpe(
            (text for name in names for pair in task._split[name] for text in pair[sides]), 131
        ).to_json()

    assert task.tokenizer.to_json() == learned("train")
    others = [
        learned("test"),
        learned("train", sides=slice(1)),
        learned("train", sides=slice(1, 2)),
    ]
    assert task.tokenizer.to_json() not in others
    given = Tokenizer.characters("abc")
    assert TranslationTask(task.paths, tokenizer=given).tokenizer is given


def test_long_pairs_are_left_out_of_training(file):
    short = TranslationTask(file, vocab_size=131, max_length=7)
    assert max(max(len(s), len(t)) for s, t in short._train) < 7
    longest = max(max(len(s), len(t)) for s, t in short._train)
    assert longest == 6  # one of 7 is too long
    assert TranslationTask(file, vocab_size=131).max_length == 96
    with pytest.raises(DataError, match="no train pair is shorter than 1 tokens"):
        next(iter(TranslationTask(file, vocab_size=131, max_length=1).batches(1)))


def test_too_few_pairs_to_split(tmp_path):
    path = tmp_path / "few.tsv"
    path.write_text("Go.\tVa !\n")
    few = TranslationTask(path)
    with pytest.raises(DataError, match=r"few\.tsv: 1 pair, too few for a test split"):
        few.held_out()
    with pytest.raises(DataError, match="validation split"):
        few.validation()


def test_the_licence_is_tatoebas_only_for_tatoebas_file(file, tmp_path):
    assert TranslationTask(file).licence == "not stated; that of pairs.tsv"
    assert TranslationTask(file, licence="public domain").licence == "public domain"
    path = tmp_path / "tatoeba-eng-fra.tsv"
    path.write_text("Go.\tVa !\n")
    assert TranslationTask(path).licence == TATOEBA_LICENCE


def test_the_fingerprint_depends_on_the_content(task, file, tmp_path):
    assert task.data()["file"] == "pairs.tsv"
    assert task.data()["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    each = [hashlib.sha256(file.read_bytes()).hexdigest(), hashlib.sha256(b"x").hexdigest()]
    (tmp_path / "x").write_bytes(b"x")
    both = {"file": "pairs.tsv + x", "sha256": hashlib.sha256("".join(each).encode()).hexdigest()}
    assert file_record([file, tmp_path / "x"]) == both
    other = tmp_path / "pairs.tsv"
    other.write_bytes(file.read_bytes() + b"x\ty\n")
    assert TranslationTask(other).data()["sha256"] != task.data()["sha256"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("dates", "a.tsv", "dates are generated; they take no data file"),
        ("translation", None, "translation needs a tab-separated file"),
        ("poems", None, "task must be one of .*language.*, got 'poems'"),
    ],
)
def test_wrong_ways_to_open_a_task(name, data, message):
    with pytest.raises(DataError, match=message):
        open_task(name, data)
