"""No held-out text of the shipped translators is equivalent to a training text, by a different normaliser than the product's."""

import re

import pytest
from test_shipped import DATA, TATOEBA, wants

import models
from models.opening import shipped_folder
from models.runs.held_out import MIN_TEXTS
from models.tasks import reopen_task
from models.tasks.pair_files import read_pairs
from models.tasks.split import split_of
from models.tasks.translation import TranslationTask
from models.training.task import validation_texts

FILES = {path.name: path for path in DATA.rglob("*") if path.is_file()}

LONG_FORMS = [
    (r"\bcan'?t\b|\bcannot\b", "can not"), (r"\bwon'?t\b", "will not"), (r"\bshan'?t\b", "shall not"), (r"n't\b", " not"),
    (r"'m\b", " am"), (r"'re\b", " are"), (r"'ve\b", " have"), (r"'ll\b", " will"), (r"\blet's\b", "let us"),
]  # fmt: skip


def readings(text: str) -> set[str]:
    """Return every way to write out the text's contractions, without punctuation: 's is "is", "has" or the genitive, 'd "would" or "had"."""
    text = text.lower().replace("’", "'").replace("n't've", " not have")
    for pattern, whole in LONG_FORMS:
        text = re.sub(pattern, whole, text)
    texts = {text}
    for short, whole in (("'s", (" is", " has", "s")), ("'d", (" would", " had"))):
        texts = {re.sub(rf"{short}\b", w, t) for t in texts for w in whole}
    return {" ".join(re.findall(r"[^\W_]+", t)) for t in texts}


@pytest.fixture(scope="module")
def tatoeba() -> TranslationTask:
    wants(TATOEBA, "the translators'")
    return TranslationTask(TATOEBA)


@pytest.fixture(scope="module")
def said(tatoeba) -> dict[str, set[str]]:
    """Return set → all readings of its sources."""
    sources = {
        name: {source for source, _ in tatoeba._split[name]}
        for name in ("train", "validation", "test")
    }
    return {
        name: {reading for source in texts for reading in readings(source)}
        for name, texts in sources.items()
    }


def test_no_held_out_source_of_the_real_file_is_equivalent_to_a_training_source(tatoeba, said):
    """The second route writes contractions out in every reading; the product shortens the long forms instead."""
    assert len(tatoeba.held_out()) == 1872
    assert not said["train"] & said["test"]
    assert not said["train"] & said["validation"]
    assert not said["test"] & said["validation"]


def test_texts_left_out_of_the_real_file_are_counted_and_the_training_set_is_unchanged(
    tatoeba, said
):
    data = tatoeba.data()
    everything = read_pairs(TATOEBA)
    set_of = {source: split_of(source) for source in {source for source, _ in everything}}
    trained = [pair for pair in everything if set_of[pair[0]] == "train"]
    assert tatoeba._split["train"] == trained  # the training set of the shipped translators
    assert data["pairs"]["train"] == len(trained) == 138_751
    assert data["left out"] == len(everything) - sum(data["pairs"].values()) > 0
    held_out = {source for name in ("test", "validation") for source, _ in tatoeba._split[name]}
    left = {source for source, name in set_of.items() if name != "train"} - held_out
    assert {"He's a DJ.", "I cannot accept this gift.", "I'm ready.", "Stop that!"} <= left
    assert sum(bool(readings(source) & said["train"]) for source in left) > 0.95 * len(
        left
    )  # the rest: odd readings


@pytest.mark.parametrize("name", [folder.name for folder in shipped_folder().iterdir()])
def test_the_texts_in_the_record_are_held_out_of_training(name):
    """They are the first of the validation split, when it is read from the data again, and the model can read each."""
    scope = models.load(name, device="cpu")
    file = scope.training["data"].get("file")
    if file:
        wants(DATA, "the held-out texts'")
    paths = [FILES[one] for one in file.split(" + ")] if file else None
    settings = {"tokenizer": scope.tokenizer, "n_ctx": scope.n_ctx}
    task = reopen_task(scope.task, paths, scope.training["data"], **settings)
    assert scope.held_out == validation_texts(task, scope.n_ctx)
    assert len(scope.held_out) >= MIN_TEXTS
    for text in scope.held_out:
        scope.encode(*text)
    assert scope.held_out_outputs().outputs.keys() == scope.run(*scope.held_out[0]).attention.keys()
