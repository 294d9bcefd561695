"""The files of a checkpoint folder: what they are called, how much is read of each, and how one is replaced whole or not at
all."""

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from models import loading, weights
from models.errors import CheckpointError

CONFIG, TOKENIZER, RECORD, WEIGHTS = FILES = (
    "config.json",
    "tokenizer.json",
    "training.json",
    "model.safetensors",
)
LARGEST = {
    CONFIG: 2**14,
    TOKENIZER: 2**25,
    RECORD: 2**24,
    WEIGHTS: weights.LARGEST,
}  # bytes that are read of a file
CHUNK = 2**24  # bytes of weights read at a time


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well, and is removed if it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write the whole file or leave the old one; OSError (a full disk, say) leaves the old one."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def checksum(content: bytes) -> str:
    """SHA-256, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def snapshot_path(folder: Path, step: int) -> Path:
    return folder / "snapshots" / f"{step:06d}.safetensors"


def snapshots(folder: Path) -> list[int]:
    """The steps of which this checkpoint keeps the weights, ascending; files of other names are none of its own."""
    names = [path.name for path in (folder / "snapshots").glob("*.safetensors") if path.is_file()]
    steps = {
        int(name.partition(".")[0])
        for name in names
        if re.fullmatch(r"[0-9]{6,12}\.safetensors", name)
    }
    return sorted(step for step in steps if snapshot_path(folder, step).name in names)


@contextmanager
def named(path: Path) -> Iterator[None]:
    """What is wrong with a file, as a CheckpointError that names it."""
    try:
        yield
    except (TypeError, ValueError, RuntimeError, MemoryError, OSError) as error:
        raise CheckpointError(f"{path}: {error}") from None


def read_bytes(path: Path, largest: int | None = None) -> bytes:
    """Return what a regular file holds, if that is at most `largest` bytes (default: the limit of its name).

    Raises CheckpointError, at once where it is no regular file: reading a pipe or a device may never end."""
    largest = LARGEST.get(path.name, LARGEST[WEIGHTS]) if largest is None else largest
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise CheckpointError(f"{path}: not a regular file")
            if status.st_size > largest:
                raise _too_large(path, largest)
            size = status.st_size + 1
            content = (
                _read_reporting(file, size) if path.suffix == ".safetensors" else file.read(size)
            )
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, MemoryError) as error:  # ValueError: a null character in the path
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{path}: cannot be read ({str(error) or 'out of memory'})") from None
    if len(content) > largest:  # grown since
        raise _too_large(path, largest)
    return content


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting for a pipe's other end."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _too_large(path: Path, largest: int) -> CheckpointError:
    return CheckpointError(f"{path}: larger than the {largest:,} bytes that are read of it")


def _read_reporting(file: BinaryIO, size: int) -> bytes:
    """Read `size` bytes of a file of weights and report the progress."""
    content = BytesIO()  # which hands out what it holds without a copy
    while part := file.read(min(CHUNK, size - content.tell())):
        content.write(part)
        loading.report_progress(loading.READ, content.tell(), size - 1)
    return content.getvalue()


def read_json(
    path: Path,
    content: bytes | None = None,
    *,
    largest: int | None = None,
    finite: bool = True,
) -> dict[str, Any]:
    """Parse the JSON object in a file, or in its `content` if that was read before; NaN and infinity only if not `finite`.

    Raises CheckpointError, whatever the file holds."""
    try:
        found = json.loads(
            (read_bytes(path, largest) if content is None else content).decode("utf-8"),
            parse_constant=_no_number if finite else None,
        )
    except CheckpointError:
        raise
    except RecursionError:
        raise CheckpointError(f"{path}: not readable as JSON (nested too deeply)") from None
    except (ValueError, MemoryError) as error:
        raise CheckpointError(
            f"{path}: not readable as JSON ({str(error) or 'out of memory'})"
        ) from None
    if not isinstance(found, dict):
        raise CheckpointError(f"{path}: wanted a JSON object")
    return found


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number")
