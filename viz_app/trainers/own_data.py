"""A session's own training data: a small file, checked by the reader of the command line."""

import os
import re
import secrets
import threading
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from models.checkpoint_files import write_bytes
from models.printable import printable
from models.tasks import open_task
from models.tasks.classify import ClassifyTask
from models.tasks.text_files import paragraphs_of
from models.training.plan import Plan
from models.training.recipes import for_small_file, plan_for
from models.training.task import DataError
from viz_app.trainers import folders

MAX_OWN_DATA_BYTES = 5_000_000  # bytes of a file
MAX_OWN_DATA_FILES = 100  # files kept for all sessions; the oldest are removed first
MAX_LABELS = 50
MIN_SPLIT_DOCUMENTS = 300  # a text with fewer is not split between them
OWN_DATA_FOLDER = ".own"  # in the folder of all runs
MAX_LINES = 200_000
MAX_UNBROKEN = 2000  # characters without a space
N_SCORED_CASES = 50  # validation cases
MAX_DATA_NAME = 60  # characters of a file's name


@dataclass(frozen=True)
class DataKind:
    """A kind of data: the noun for its items, its file in a run's folder, and model → task."""

    noun: str
    file: str
    tasks: dict[str, str]
    expects: str
    starts: bool = False  # training starts from the shipped model of the same name


DATA_KINDS = {
    "own pairs": DataKind(
        "sentence pairs",
        "data.tsv",
        {name: "translation" for name in ("transformer", "bahdanau", "rnn")},
        "One pair a line: source, tab, target.",
    ),
    "own text": DataKind(
        "documents",
        "data.txt",
        {"gpt": "language", "xlnet": "permutation"},
        "Running text, such as a story; an empty line begins a new paragraph.",
    ),
    "own labels": DataKind(
        "labelled texts",
        "data.tsv",
        {"gpt": "classify", "bert": "classify"},
        "One text a line: text, tab, label.",
        starts=True,
    ),
}
_reading = threading.Lock()  # one file at a time: other sessions' edits take priority


@dataclass(frozen=True)
class OwnData:
    """A file that can be trained on, and what its plan depends on."""

    kind: str
    name: str  # the user's name for it
    path: Path
    sha256: str  # of its content
    n: int  # pairs, documents or texts
    n_characters: int
    documents: str = ""  # what the documents of a running text are
    classes: tuple[str, ...] = ()
    n_texts: int = 1  # texts that are classified together

    @property
    def of(self) -> DataKind:
        return DATA_KINDS[self.kind]

    @property
    def in_words(self) -> str:
        characters = f"{self.n_characters:,} characters"
        return (
            characters if self.documents == "whole" else f"{self.n:,} {self.of.noun}, {characters}"
        )

    def shipped_plan(self, model: str) -> Plan:
        """Return the plan that the command line uses for this data."""
        return plan_for(self.of.tasks[model], model, self.n)

    def plan(self, model: str) -> Plan:
        """Return the plan for this data, chosen by its size, with a score at each validation."""
        plan = self.shipped_plan(model)
        scored = replace(plan.recipe, score_cases=plan.recipe.score_cases or N_SCORED_CASES)
        plan = replace(plan, recipe=scored)
        if not self.of.starts:
            plan = for_small_file(plan, self.n_characters)
        documents = {"documents": self.documents} if self.documents else {}
        data = plan.data | documents
        if self.of.starts:  # the vocabulary is that of the shipped model
            del data["vocab_size"]
        return replace(plan, data=data)

    def sizes(self, plan: Plan) -> dict[str, object]:
        """Return the sizes of the plan's model that follow from the data."""
        sizes = {"classes": ",".join(self.classes), "n_texts": self.n_texts} if self.classes else {}
        return {name: size for name, size in sizes.items() if name in plan.size_names}


def keep_own_data(content: bytes, kind: str, name: str) -> OwnData:
    """Check a file and keep it for the runs of its session.

    Raises:
        ValueError: It is too large, or a line is malformed; the message names the line.
    """
    if len(content) > MAX_OWN_DATA_BYTES:
        raise ValueError(f"more than {MAX_OWN_DATA_BYTES:,} bytes")
    if kind not in DATA_KINDS:
        raise ValueError(f"the kind must be one of {', '.join(DATA_KINDS)}")
    text = _text_of(content)
    folder = folders.root() / OWN_DATA_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{secrets.token_hex(8)}-{DATA_KINDS[kind].file}"
    with _reading:
        _make_room(folder)
        write_bytes(path, content)
        try:
            shown_name = printable(name)[:MAX_DATA_NAME] or "pasted text"
            return _read(path, kind, shown_name, content, text)
        except DataError as error:
            path.unlink()
            raise ValueError(str(error).replace(f"{path}, ", "").replace(f"{path}: ", "")) from None


def _text_of(content: bytes) -> str:
    """Return the text with line ends as its reader sees them.

    Raises:
        ValueError: It is not UTF-8, or learning a vocabulary from it would take too long.
    """
    try:
        text = re.sub(r"\r\n?", "\n", content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = len(re.findall(rb"\r\n?|\n", content[: error.start])) + 1
        raise ValueError(f"line {line}: not UTF-8 text ({error.reason})") from None
    if (n := text.removesuffix("\n").count("\n") + 1) > MAX_LINES:
        raise ValueError(f"{n:,} lines; at most {MAX_LINES:,} are read here")
    if long := re.search(rf"\S{{{MAX_UNBROKEN + 1}}}", text):
        line = text[: long.start()].count("\n") + 1
        raise ValueError(f"line {line}: more than {MAX_UNBROKEN:,} characters without a space")
    return text


def _read(path: Path, kind: str, name: str, content: bytes, text: str) -> OwnData:
    """Read a file with the reader of its task, which also splits it."""
    documents = _documents(text) if kind == "own text" else ""
    data = OwnData(kind, name, path, sha256(content).hexdigest(), 0, len(text), documents)
    model = next(iter(data.of.tasks))
    settings = {"documents": data.documents} if data.documents else {}
    task = open_task(data.of.tasks[model], path, **settings)
    for is_validation in (True, False):
        if not task.held_out(1, validation=is_validation):
            part = "validation" if is_validation else "test"
            raise DataError(f"too short: no paragraph of six words is in the {part} split")
    description = task.data()
    if isinstance(task, ClassifyTask):
        if len(task.labels) > MAX_LABELS:
            raise DataError(f"{len(task.labels):,} labels; at most {MAX_LABELS} are trained here")
        data = replace(data, classes=task.labels, n_texts=task.sizes["n_texts"])
    counts = next(description[key] for key in ("pairs", "documents", "texts") if key in description)
    return replace(data, n=sum(counts.values()) + description["left out"])


def _documents(text: str) -> str:
    """Return what a text is split by: paragraphs or lines if there are many, else the whole."""
    lines = [line for line in text.split("\n") if line.strip()]
    n_paragraphs = len(paragraphs_of(text))
    if n_paragraphs >= MIN_SPLIT_DOCUMENTS:
        return "paragraphs"
    return "lines" if len(lines) >= MIN_SPLIT_DOCUMENTS and n_paragraphs == 1 else "whole"


def _make_room(folder: Path) -> None:
    """Remove the oldest files to make room for one more."""
    files = sorted(folder.iterdir(), key=lambda path: path.lstat().st_mtime)
    for path in files[: max(0, len(files) - MAX_OWN_DATA_FILES + 1)]:
        os.unlink(path)
