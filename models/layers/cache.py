"""Keys, values and recurrent states of a decoding run, so that a step computes only what is new."""

from collections.abc import Callable
from typing import Protocol, TypeVar, cast, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

MIN_ROOM = 32  # positions; a full cache doubles its room


@runtime_checkable
class ForeignCache(Protocol):
    """A cache of another library, kept in step with ours."""

    def cut(self, n: int) -> None: ...
    def reorder(self, rows: Int[Tensor, "batch"]) -> None: ...


AnyForeignCache = TypeVar("AnyForeignCache", bound=ForeignCache)


class Cache:
    """The past of one decoding run, by the path of the module that stores it.

    An entry is keys and values, or the state of an RNN, batch first.
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Tensor, ...]] = {}
        self._growing: dict[str, _Growing] = {}
        self._foreign: dict[str, ForeignCache] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._kept or path in self._growing

    def get(self, path: str) -> tuple[Tensor, ...]:
        return self._growing[path].filled() if path in self._growing else self._kept[path]

    def put(self, path: str, *tensors: Tensor) -> None:
        """Store these tensors in place of earlier ones."""
        self._kept[path] = tensors

    def append(
        self,
        path: str,
        k: Float[Tensor, "batch head new d_head"],
        v: Float[Tensor, "batch head new d_head"],
    ) -> tuple[Float[Tensor, "batch head key d_head"], Float[Tensor, "batch head key d_head"]]:
        """Add keys and values of new positions; return those of all positions."""
        if path not in self._growing:
            self._growing[path] = _Growing(k)
        return self._growing[path].append(k, v)

    def foreign(self, path: str, make: Callable[[], AnyForeignCache]) -> AnyForeignCache:
        """Return another library's cache of this run, made at the first call."""
        if path not in self._foreign:
            self._foreign[path] = make()
        return cast(AnyForeignCache, self._foreign[path])

    def cut(self, n: int) -> None:
        """Forget all target positions but the first n; a recurrent state cannot be cut."""
        for growing in self._growing.values():
            growing.n = n
        for foreign in self._foreign.values():
            foreign.cut(n)

    def reorder(self, rows: Int[Tensor, "batch"]) -> None:
        """Keep these batch rows, in this order (beam search)."""
        self._kept = {path: tuple(t[rows] for t in tensors) for path, tensors in self._kept.items()}
        for growing in self._growing.values():
            growing.reorder(rows)
        for foreign in self._foreign.values():
            foreign.reorder(rows)


class _Growing:
    """Keys and values of n positions, in tensors with room for more.

    New positions are written after the others, which are neither copied nor, until the run is cut,
    overwritten.
    """

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
        new = old.new_empty(batch, heads, max(MIN_ROOM, 2 * end), d_head)
        new[:, :, : self.n] = old[:, :, : self.n]
        return new
