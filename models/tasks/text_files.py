"""Files of running text (`.gz` too), split into documents: lines, paragraphs or the whole file."""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from models.tasks.pair_files import read_lines
from models.tasks.split import SPLIT_SETS, sets_of
from models.tasks.translation import TATOEBA_LICENCE
from models.training.task import DataError

TEXT_PARTS = ("train", "validation", "test")  # of a whole text, in their order
_CUTS = (0.89, 0.9)
DOCUMENTS = ("lines", "paragraphs", "whole")


def read_documents(path: Path, documents: str) -> list[str]:
    """Return the file's non-blank documents in order.

    In a table (.tsv), each line's first column is a document. A paragraph ends at a blank line; its
    lines are joined by spaces.

    Raises:
        DataError: The file cannot be read or holds no text.
    """
    if documents not in DOCUMENTS:
        raise DataError(
            f"documents must be {', '.join(DOCUMENTS[:-1])} or {DOCUMENTS[-1]}, not {documents!r}"
        )
    if is_table(path):
        texts = [line.split("\t")[0].strip() for line in read_lines(path)]
    elif documents == "lines":
        texts = [line.strip() for line in read_lines(path)]
    else:
        whole = "\n".join(read_lines(path))
        texts = (
            [whole]
            if documents == "whole"
            else [" ".join(part.split()) for part in paragraphs_of(whole)]
        )
    if not (texts := [document for document in texts if document.strip()]):
        raise DataError(f"{path}: holds no text")
    return texts


def paragraphs_of(text: str) -> list[str]:
    """Return the parts of a text between blank lines, without outer spaces."""
    return [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]


def is_table(path: Path) -> bool:
    return ".tsv" in path.suffixes


def in_parts(text: str, shares: Sequence[float]) -> list[str]:
    """Cut a text after each cumulative share of its characters, into contiguous parts."""
    ends = [0, *(round(share * len(text)) for share in shares), len(text)]
    return [text[a:b] for a, b in pairwise(ends)]


def split_documents(paths: Sequence[Path], documents: str) -> tuple[dict[str, list[str]], int]:
    """Return the distinct documents of each set, and the number of documents in no set.

    Lines and paragraphs are split by their hash, a whole text into contiguous parts.
    """
    split: dict[str, list[str]] = {name: [] for name in SPLIT_SETS}
    hashed: dict[str, None] = {}
    for path in paths:
        texts = read_documents(path, documents)
        if documents == "whole" and not is_table(path):
            for name, part in zip(TEXT_PARTS, in_parts(texts[0], _CUTS), strict=True):
                split[name] += [part] if part.strip() else []
        else:
            hashed |= dict.fromkeys(texts)
    belongs = sets_of(hashed, {})
    for document in hashed:
        if belongs[document] in SPLIT_SETS:
            split[belongs[document]].append(document)
    return split, sum(belongs[document] not in SPLIT_SETS for document in hashed)


def licence_of(paths: Sequence[Path]) -> str:
    """Return the known licences of these files."""
    licences = [TATOEBA_LICENCE] if any(path.name.startswith("tatoeba") for path in paths) else []
    others = [path.name for path in paths if not path.name.startswith("tatoeba")]
    return "; ".join([*licences, *([f"not stated; that of {', '.join(others)}"] if others else [])])
