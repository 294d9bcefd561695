"""Files of running text as documents: every line one, every paragraph one, or the whole file; which of them are held out.
`.gz` too."""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from models.tasks.pair_files import lines
from models.tasks.split import SETS, sets_of
from models.tasks.translation import TATOEBA_LICENCE
from models.training.task import DataError

PARTS = ("train", "validation", "test")  # of a whole text, in their order
_CUTS = (0.89, 0.9)
DOCUMENTS = ("lines", "paragraphs", "whole")


def read_documents(path: Path, documents: str) -> list[str]:
    """The file's documents in their order, none of them blank. Of a table (.tsv) each line's first column is one; the lines of
    a paragraph, which a blank line ends, are joined by spaces. Raises DataError."""
    if documents not in DOCUMENTS:
        raise DataError(
            f"documents must be {', '.join(DOCUMENTS[:-1])} or {DOCUMENTS[-1]}, not {documents!r}"
        )
    if is_table(path):
        found = [line.split("\t")[0].strip() for line in lines(path)]
    elif documents == "lines":
        found = [line.strip() for line in lines(path)]
    else:
        whole = "\n".join(lines(path))
        found = (
            [whole]
            if documents == "whole"
            else [" ".join(part.split()) for part in re.split(r"\n\s*\n", whole)]
        )
    if not (found := [document for document in found if document.strip()]):
        raise DataError(f"{path}: holds no text")
    return found


def is_table(path: Path) -> bool:
    return ".tsv" in path.suffixes


def in_parts(text: str, shares: Sequence[float]) -> list[str]:
    """A text cut once behind each share of its characters: neighbours that touch, and nothing twice."""
    ends = [0, *(round(share * len(text)) for share in shares), len(text)]
    return [text[a:b] for a, b in pairwise(ends)]


def separated(paths: Sequence[Path], documents: str) -> tuple[dict[str, list[str]], int]:
    """Set → its documents, each once, and how many are in no set. Lines and paragraphs are split by their hash, a whole text
    into parts that touch."""
    split: dict[str, list[str]] = {name: [] for name in SETS}
    hashed: dict[str, None] = {}
    for path in paths:
        found = read_documents(path, documents)
        if documents == "whole" and not is_table(path):
            for name, part in zip(PARTS, in_parts(found[0], _CUTS), strict=True):
                split[name] += [part] if part.strip() else []
        else:
            hashed |= dict.fromkeys(found)
    belongs = sets_of(hashed, {})
    for document in hashed:
        if belongs[document] in SETS:
            split[belongs[document]].append(document)
    return split, sum(belongs[document] not in SETS for document in hashed)


def licence_of(paths: Sequence[Path]) -> str:
    """What is known of the licences of these files."""
    known = [TATOEBA_LICENCE] if any(path.name.startswith("tatoeba") for path in paths) else []
    others = [path.name for path in paths if not path.name.startswith("tatoeba")]
    return "; ".join([*known, *([f"not stated; that of {', '.join(others)}"] if others else [])])
