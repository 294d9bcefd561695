"""What one decoding run keeps of its past, so that a step computes only what is new."""

from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

from torch import Tensor

LEAST_ROOM = 32  # positions; a cache that is full doubles its room


@runtime_checkable
class Other(Protocol):
    """A cache of another library's, which goes along with ours."""

    def cut(self, n: int) -> None: ...
    def reorder(self, rows: Tensor) -> None: ...


AnOther = TypeVar("AnOther", bound=Other)


class Cache:
    """What one decoding run keeps, by the path of the module that made it: keys and values, or an RNN's state, the batch first."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Tensor, ...]] = {}
        self._growing: dict[str, _Growing] = {}
        self._others: dict[str, Other] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._kept or path in self._growing

    def get(self, path: str) -> tuple[Tensor, ...]:
        return self._growing[path].filled() if path in self._growing else self._kept[path]

    def put(self, path: str, *tensors: Tensor) -> None:
        """Keep these instead of what was kept there before."""
        self._kept[path] = tensors

    def append(self, path: str, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add the new positions' keys and values; returns all of them, (batch, head, key, d_head)."""
        if path not in self._growing:
            self._growing[path] = _Growing(k)
        return self._growing[path].append(k, v)

    def other(self, path: str, make: Callable[[], AnOther]) -> AnOther:
        """Another library's cache of this run, made at the first call."""
        if path not in self._others:
            self._others[path] = make()
        return self._others[path]

    def cut(self, n: int) -> None:
        """Forget the keys and values of all target positions but the first n; a recurrent state has no way back."""
        for growing in self._growing.values():
            growing.n = n
        for other in self._others.values():
            other.cut(n)

    def reorder(self, rows: Tensor) -> None:
        """Keep these batch rows, in this order (beam search)."""
        self._kept = {path: tuple(t[rows] for t in tensors) for path, tensors in self._kept.items()}
        for growing in self._growing.values():
            growing.reorder(rows)
        for other in self._others.values():
            other.reorder(rows)


class _Growing:
    """Keys and values of n positions, in tensors with room for more: a new position is written behind the others, and none of
    these is copied or, until the run goes back, written again."""

    def __init__(self, like: Tensor) -> None:
        self.n = 0
        self.k = self.v = like[:, :, :0]

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        end = self.n + k.shape[2]
        if end > self.k.shape[2]:
            self.k, self.v = self._with_room(self.k, end), self._with_room(self.v, end)
        self.k[:, :, self.n : end], self.v[:, :, self.n : end] = k, v
        self.n = end
        return self.filled()

    def filled(self) -> tuple[Tensor, Tensor]:
        return self.k[:, :, : self.n], self.v[:, :, : self.n]

    def reorder(self, rows: Tensor) -> None:
        self.k, self.v = self.k[rows], self.v[rows]

    def _with_room(self, old: Tensor, end: int) -> Tensor:
        batch, heads, _, d_head = old.shape
        new = old.new_empty(batch, heads, max(LEAST_ROOM, 2 * end), d_head)
        new[:, :, : self.n] = old[:, :, : self.n]
        return new
