"""npz files written piece by piece, so that an array is never in memory as a whole.

The members are in numpy's own format (NEP 1).
"""

import io
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

PIECE = 2**23  # bytes of an array that are written at a time


@dataclass(frozen=True)
class RowwiseArray:
    """An array computed some rows at a time: its shape, dtype, and a source of parts in C order."""

    shape: tuple[int, ...]
    dtype: type
    parts: Callable[[], Iterator[np.ndarray]]


Arrays = Iterable[tuple[str, np.ndarray | RowwiseArray]]


def npz(arrays: Arrays) -> Iterator[bytes]:
    """Yield a compressed npz file of these arrays in pieces.

    Raises:
        ValueError: the parts of an array have fewer or more numbers than its shape.
    """
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                for piece in _npy(name, array):
                    member.write(piece)
                    yield sink.taken()
    yield sink.taken()


def _npy(name: str, array: np.ndarray | RowwiseArray) -> Iterator[bytes]:
    """Yield the npy header, then the data in C order."""
    head, dtype = io.BytesIO(), np.dtype(array.dtype)
    description = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": tuple(array.shape),
    }
    np.lib.format.write_array_header_1_0(head, description)
    yield head.getvalue()
    missing = int(np.prod(array.shape, dtype=np.int64))
    for part in array.parts() if isinstance(array, RowwiseArray) else _slices(array):
        missing -= part.size
        yield np.ascontiguousarray(part, dtype).tobytes()
    if missing:
        raise ValueError(
            f"{name}: {missing} of the numbers in its shape {tuple(array.shape)} are missing"
        )


def _slices(array: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the array some rows at a time, so that a broadcast array is never copied as a whole."""
    step = max(1, PIECE // max(1, array.nbytes // max(1, len(array)))) if array.ndim else 1
    yield from (array[i : i + step] for i in range(0, len(array), step)) if array.ndim else (array,)


class _Sink:
    """A write-only buffer for a zip file."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, piece: bytes) -> int:
        self._pieces.append(bytes(piece))
        return len(piece)

    def flush(self) -> None:
        pass

    def taken(self) -> bytes:
        """Return the bytes written since the last call."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)
