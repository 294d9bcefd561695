"""The finished parts of a survey, kept in a file so that a stopped survey can continue."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeGuard

from models.checkpoint_files import checksum, read_json, write_bytes

MAX_STATE_BYTES = 2**24  # of a file of finished parts
WRITE_EVERY = 1.0  # seconds between two writes, at least


class SurveyParts:
    """The computed numbers of a survey, by the name of their part.

    As a context manager it saves them to the file `path`, at most once a second and when an error
    or Ctrl-C ends the block; `remove` deletes the file once nothing is left to continue. `belongs`
    identifies the survey, its model, texts and settings. Without a path nothing is kept.

    Raises:
        ValueError: the file belongs to another survey, is damaged or cannot be read.
    """

    def __init__(self, path: Path | None = None, belongs: str = "") -> None:
        self.path, self.belongs = path, belongs
        self.continues = path is not None and path.exists()
        self._parts: dict[str, list[float]] = self._read(path) if path and self.continues else {}
        self._n_written, self._written_at = len(self._parts), time.monotonic()

    def __enter__(self) -> "SurveyParts":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._write()

    def numbers(
        self, name: str, upper: float, compute: Callable[[], Sequence[float]]
    ) -> list[float]:
        """Return the numbers of a part, each from 0 to `upper`; they are computed only once.

        Raises:
            ValueError: a number, stored or computed, is not from 0 to `upper`.
        """
        is_from_file = name in self._parts
        numbers = self._parts[name] if is_from_file else list(compute())
        if wrong := [number for number in numbers if not 0 <= number <= upper]:
            if is_from_file:
                raise ValueError(f"{self.path} is damaged at {name!r:.60}; remove it")
            raise ValueError(f"{name!r:.60} should be from 0 to {upper:g}, but is {wrong[0]:g}")
        self._parts[name] = numbers
        if time.monotonic() - self._written_at >= WRITE_EVERY:
            self._write()
        return numbers

    def remove(self) -> None:
        """Delete the file, if there is one."""
        if self.path is not None and (self.continues or self._n_written):
            self.path.unlink(missing_ok=True)

    def _read(self, path: Path) -> dict[str, list[float]]:
        state = read_json(path, largest=MAX_STATE_BYTES)
        if state.get("belongs") != self.belongs:
            raise ValueError(f"{path} holds another survey; remove it, or choose another file")
        parts: Any = state.get("parts")
        if not are_parts(parts) or state.get("checksum") != _checksum(parts):
            raise ValueError(f"{path} is damaged; remove it, and the survey starts again")
        return parts

    def _write(self) -> None:
        """Write the finished parts; a file that would be too large to read is left as it was."""
        if self.path is None or len(self._parts) == self._n_written:
            return
        state = {
            "belongs": self.belongs,
            "checksum": _checksum(self._parts),
            "parts": self._parts,
        }
        content = json.dumps(state).encode()
        if len(content) <= MAX_STATE_BYTES:
            write_bytes(self.path, content)
            self._n_written = len(self._parts)
        self._written_at = time.monotonic()


def _checksum(parts: Any) -> str:
    return checksum(json.dumps(parts).encode())


def are_parts(value: Any) -> TypeGuard[dict[str, list[float]]]:
    """Return True for lists of numbers by the name of their part."""
    return isinstance(value, dict) and all(
        isinstance(numbers, list) and all(type(one) in (int, float) for one in numbers)
        for numbers in value.values()
    )
