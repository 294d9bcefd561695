"""Files of running text as documents: every line one, every paragraph one, or the whole file. `.gz` too."""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from models.tasks.base import DataError
from models.tasks.pair_files import lines

DOCUMENTS = ("lines", "paragraphs", "whole")


def read_documents(path: Path, documents: str) -> list[str]:
    """The file's documents in their order, none of them blank. Of a table (.tsv) each line's first column is one; the lines of
    a paragraph, which a blank line ends, are joined by spaces. Raises DataError."""
    if documents not in DOCUMENTS:
        raise DataError(f"documents must be {', '.join(DOCUMENTS[:-1])} or {DOCUMENTS[-1]}, not {documents!r}")
    if is_table(path):
        found = [line.split("\t")[0].strip() for line in lines(path)]
    elif documents == "lines":
        found = [line.strip() for line in lines(path)]
    else:
        whole = "\n".join(lines(path))
        found = [whole] if documents == "whole" else [" ".join(part.split()) for part in re.split(r"\n\s*\n", whole)]
    if not (found := [document for document in found if document.strip()]):
        raise DataError(f"{path}: holds no text")
    return found


def is_table(path: Path) -> bool:
    return ".tsv" in path.suffixes


def in_parts(text: str, shares: Sequence[float]) -> list[str]:
    """A text cut once behind each share of its characters: neighbours that touch, and nothing twice."""
    ends = [0, *(round(share * len(text)) for share in shares), len(text)]
    return [text[a:b] for a, b in pairwise(ends)]
