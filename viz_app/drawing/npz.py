"""Files of arrays, written piece by piece, so that what is in them is never there at once: zip members in numpy's format
(NEP 1)."""

import io
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

PIECE = 2**23  # bytes of an array that are written together


@dataclass(frozen=True)
class Rows:
    """An array of which some rows are worked out at a time: its shape and type, and what makes its parts in C order."""

    shape: tuple[int, ...]
    dtype: type
    parts: Callable[[], Iterator[np.ndarray]]


Arrays = Iterable[tuple[str, np.ndarray | Rows]]


def npz(arrays: Arrays) -> Iterator[bytes]:
    """A compressed file of these arrays. Raises ValueError for rows that are not as many as their shape says."""
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                for piece in _npy(name, array):
                    member.write(piece)
                    yield sink.taken()
    yield sink.taken()


def _npy(name: str, array: np.ndarray | Rows) -> Iterator[bytes]:
    """A header, and the numbers as they lie in memory."""
    head, dtype = io.BytesIO(), np.dtype(array.dtype)
    described = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": tuple(array.shape),
    }
    np.lib.format.write_array_header_1_0(head, described)
    yield head.getvalue()
    left = int(np.prod(array.shape, dtype=np.int64))
    for part in array.parts() if isinstance(array, Rows) else _slices(array):
        left -= part.size
        yield np.ascontiguousarray(part, dtype).tobytes()
    if left:
        raise ValueError(
            f"{name}: {left} of the numbers that its shape {tuple(array.shape)} says are missing"
        )


def _slices(array: np.ndarray) -> Iterator[np.ndarray]:
    """The array, some rows at a time: one that repeats its rows is as many numbers only when it is written."""
    step = max(1, PIECE // max(1, array.nbytes // max(1, len(array)))) if array.ndim else 1
    yield from (array[i : i + step] for i in range(0, len(array), step)) if array.ndim else (array,)


class _Sink:
    """What a zip file writes into, which nothing is read back from."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, piece: bytes) -> int:
        self._pieces.append(bytes(piece))
        return len(piece)

    def flush(self) -> None:
        pass

    def taken(self) -> bytes:
        """What has been written since it was last asked."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)
