"""The files of a checkpoint folder: names, size limits, and atomic replacement."""

import hashlib
import json
import os
import re
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from models import loading, weights
from models.errors import CheckpointError

CONFIG, TOKENIZER, RECORD, WEIGHTS = CHECKPOINT_FILES = (
    "config.json",
    "tokenizer.json",
    "training.json",
    "model.safetensors",
)
MAX_FILE_BYTES = {
    CONFIG: 2**14,
    TOKENIZER: 2**25,
    RECORD: 2**24,
    WEIGHTS: weights.MAX_WEIGHTS_BYTES,
}  # largest size of each file
CHUNK = 2**24  # bytes of weights per read


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` if the block succeeds, else is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = f"{os.getpid()}-{threading.get_ident()}"  # two threads may write the same file
    temporary = path.with_name(f".{path.name}.{writer}.partial")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write the whole file, or leave the old one in place if writing fails.

    Raises:
        OSError: The file cannot be written (a full disk, for example).
    """
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def checksum(content: bytes) -> str:
    """Return the SHA-256 of the content in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def file_checksum(path: Path) -> str:
    """Return the SHA-256 of a file's content, which is not held in memory as a whole."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(CHUNK):
            digest.update(part)
    return digest.hexdigest()


def snapshot_path(folder: Path, step: int) -> Path:
    """Return the path of the snapshot taken at a training step."""
    return folder / "snapshots" / f"{step:06d}.safetensors"


def snapshots(folder: Path) -> list[int]:
    """Return the steps of a checkpoint's snapshots in ascending order; ignore other file names."""
    names = [path.name for path in (folder / "snapshots").glob("*.safetensors") if path.is_file()]
    steps = {
        int(name.partition(".")[0])
        for name in names
        if re.fullmatch(r"[0-9]{6,12}\.safetensors", name)
    }
    return sorted(step for step in steps if snapshot_path(folder, step).name in names)


def downloaded_name(folder: Path) -> str:
    """Return the name of the repository if this is a download in Hugging Face's cache, else "".

    Such a folder is models--OWNER--NAME/snapshots/COMMIT.
    """
    repository = folder.parent.parent.name
    if folder.parent.name != "snapshots" or not repository.startswith("models--"):
        return ""
    return repository.removeprefix("models--").replace("--", "/")


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Re-raise any error about a file as a CheckpointError that names it."""
    try:
        yield
    except (TypeError, ValueError, RuntimeError, MemoryError, OSError) as error:
        raise CheckpointError(f"{path}: {error}") from None


def read_bytes(path: Path, largest: int | None = None) -> bytes:
    """Return the content of a file of at most `largest` bytes (default: the limit of its name).

    Raises:
        CheckpointError: The file is unreadable, too large or not a regular file. Pipes and devices
            are refused before any read, which might never end.
    """
    largest = MAX_FILE_BYTES.get(path.name, MAX_FILE_BYTES[WEIGHTS]) if largest is None else largest
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
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


def _open_without_waiting(path: str, flags: int) -> int:
    """Open without waiting for the other end of a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _too_large(path: Path, largest: int) -> CheckpointError:
    return CheckpointError(f"{path}: larger than the limit of {largest:,} bytes")


def _read_reporting(file: BinaryIO, size: int) -> bytes:
    """Read `size` bytes of a weights file, reporting progress."""
    content = BytesIO()  # returns its content without a copy
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
    """Parse the JSON object in a file, or in its `content` if that was read before.

    NaN and infinity are accepted only if not `finite`.

    Raises:
        CheckpointError: The file cannot be read or does not hold a JSON object.
    """
    try:
        value = json.loads(
            (read_bytes(path, largest) if content is None else content).decode("utf-8"),
            parse_constant=_reject_constant if finite else None,
        )
    except CheckpointError:
        raise
    except RecursionError:
        raise CheckpointError(f"{path}: not readable as JSON (nested too deeply)") from None
    except (ValueError, MemoryError) as error:
        raise CheckpointError(
            f"{path}: not readable as JSON ({str(error) or 'out of memory'})"
        ) from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: expected a JSON object, got {type(value).__name__}")
    return value


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a finite number")
