"""Files of sentence pairs: one with `source \t target` in each line (more columns ignored), or two that agree line by line.
`.gz` too."""

import gzip
import hashlib
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from models.training.task import DataError

TextPair = tuple[str, str]
Files = str | Path | Sequence[str | Path]


def as_paths(given: Files) -> tuple[Path, ...]:
    """One file or two. Raises DataError for more."""
    paths = (Path(given),) if isinstance(given, (str, Path)) else tuple(map(Path, given))
    if len(paths) not in (1, 2):
        raise DataError(
            f"sentence pairs come in one tab-separated file or in two aligned ones, not in {len(paths)} files"
        )
    return paths


def read_pairs(given: Files) -> list[TextPair]:
    """The (source, target) pairs. Raises DataError saying what is wrong, in which file and line."""
    paths = as_paths(given)
    pairs = list(_columns(paths[0]) if len(paths) == 1 else _aligned(*paths))
    if not pairs:
        raise DataError(f"{names(paths)}: holds no sentence pairs")
    return pairs


def names(paths: Sequence[Path]) -> str:
    return " and ".join(map(str, paths))


def fingerprint(paths: Sequence[Path]) -> dict[str, str]:
    """File name and SHA-256 of the content, for the record; of two files their names and the hash of both hashes."""
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    both = (
        digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    )
    return {"file": " + ".join(path.name for path in paths), "sha256": both}


def _columns(path: Path) -> Iterator[TextPair]:
    for number, line in enumerate(lines(path), 1):
        columns = line.split("\t")
        if not line.strip():
            continue
        if len(columns) < 2 or not columns[0].strip() or not columns[1].strip():
            raise DataError(
                f"{path}, line {number}: wanted source, tab, target; came {line.strip()[:60]!r}"
            )
        yield columns[0].strip(), columns[1].strip()


def _aligned(source: Path, target: Path) -> Iterator[TextPair]:
    sides = [line.strip() for line in lines(source)], [line.strip() for line in lines(target)]
    if len(sides[0]) != len(sides[1]):
        raise DataError(
            f"{source} has {len(sides[0])} lines, {target} has {len(sides[1])}; line by line they must be translations"
        )
    for number, (s, t) in enumerate(zip(*sides, strict=True), 1):
        if bool(s) != bool(t):
            empty, full = (target, source) if s else (source, target)
            raise DataError(
                f"{empty}, line {number}: empty, but {full} has {(s or t)[:60]!r} there"
            )
        if s:
            yield s, t


def lines(path: Path) -> Iterator[str]:
    """The lines of a text file, gzipped if its name ends in .gz. Raises DataError."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(
            path, "rt", encoding="utf-8-sig"
        ) as text:  # -sig: a byte order mark is no letter
            for line in text:
                yield line.rstrip("\n")
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: not UTF-8 text ({error.reason} at byte {error.start} of a block)"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
