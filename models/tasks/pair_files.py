"""Files of sentence pairs: one tab-separated file, or two aligned line by line; `.gz` too.

A tab-separated line has source and target; further columns are ignored.
"""

import gzip
import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from models.training.task import DataError

TextPair = tuple[str, str]
Files = str | Path | Sequence[str | Path]


def as_paths(files: Files) -> tuple[Path, ...]:
    """Return the paths of one file or two.

    Raises:
        DataError: There are more than two.
    """
    paths = (Path(files),) if isinstance(files, (str, Path)) else tuple(map(Path, files))
    if len(paths) not in (1, 2):
        raise DataError(
            f"sentence pairs need one tab-separated file or two aligned ones, got {len(paths)} files"
        )
    return paths


def read_pairs(files: Files) -> list[TextPair]:
    """Return the (source, target) pairs.

    Raises:
        DataError: A line is malformed; the message names file and line.
    """
    paths = as_paths(files)
    pairs = list(_columns(paths[0]) if len(paths) == 1 else _pair_lines(*paths))
    if not pairs:
        raise DataError(f"{names(paths)}: holds no sentence pairs")
    return pairs


def names(paths: Sequence[Path]) -> str:
    return " and ".join(map(str, paths))


def file_record(paths: Sequence[Path]) -> dict[str, str]:
    """Return file name and SHA-256 of the content, for the record.

    For two files, their names and the hash of both hashes.
    """
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    digest = (
        digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    )
    return {"file": " + ".join(path.name for path in paths), "sha256": digest}


def same_files(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return True if two descriptions of data differ at most in the names of files.

    A description without a checksum, of an older record, names its file instead.
    """
    return _by_content(one) == _by_content(other)


def _by_content(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return a description without the names of files whose checksum it has."""
    return {
        name: _by_content(value) if isinstance(value, Mapping) else value
        for name, value in described.items()
        if not (name == "file" and "sha256" in described)
    }


def _columns(path: Path) -> Iterator[TextPair]:
    for number, line in enumerate(read_lines(path), 1):
        columns = line.split("\t")
        if not line.strip():
            continue
        if len(columns) < 2 or not columns[0].strip() or not columns[1].strip():
            raise DataError(
                f"{path}, line {number}: expected source, tab, target; got {line.strip()[:60]!r}"
            )
        yield columns[0].strip(), columns[1].strip()


def _pair_lines(source: Path, target: Path) -> Iterator[TextPair]:
    sides = (
        [line.strip() for line in read_lines(source)],
        [line.strip() for line in read_lines(target)],
    )
    if len(sides[0]) != len(sides[1]):
        raise DataError(
            f"{source} has {len(sides[0])} lines, {target} has {len(sides[1])}; "
            "they must be aligned line by line"
        )
    for number, (s, t) in enumerate(zip(*sides, strict=True), 1):
        if bool(s) != bool(t):
            empty, full = (target, source) if s else (source, target)
            raise DataError(
                f"{empty}, line {number}: empty, but {full} has {(s or t)[:60]!r} there"
            )
        if s:
            yield s, t


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file, decompressed if its name ends in .gz.

    Raises:
        DataError: The file cannot be read.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    n_lines = 0
    try:
        # -sig drops a byte order mark
        with opener(path, "rt", encoding="utf-8-sig") as text:
            for line in text:
                n_lines += 1
                yield line.rstrip("\n")
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        after = f" after line {n_lines:,}" if n_lines else ""  # a block of lines is decoded at once
        raise DataError(f"{path}: not UTF-8 text ({error.reason}{after})") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
