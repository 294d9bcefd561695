"""A cache shared by all sessions within a byte budget: computed once, evicted least recently used.

cachetools.LRUCache has a budget too (`getsizeof`), but adds up the sizes of its values: the weights
that a hundred traces share would count a hundred times. It also has no order between long runs and
the rest, and forgets an evicted value that a session still holds.
"""

import math
import os
import sys
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Hashable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar
from weakref import ref

import numpy as np
from torch import Tensor

MEGABYTE = 2**20
BUDGET_VARIABLE, BUDGET = "ATTNSCOPE_CACHE_MB", 512
# share of the budget above which a value, such as the run of a long text, is evicted first …
_LONG = 1 / 64
# … unless all such values together are below this share of the budget
_PROTECTED = 1 / 4
_SMALL = 1024  # bytes below which an object counts with the value that holds it
_PLAIN = {
    type(None),
    bool,
    int,
    float,
    complex,
    type,
    ModuleType,
    FunctionType,
    BuiltinFunctionType,
    MethodType,
}

Cached = TypeVar("Cached")
Parts = dict[Hashable, int]  # identity of a part of a value → its bytes


def budget(variable: str = BUDGET_VARIABLE) -> int:
    """Return the cache's budget in bytes: ATTNSCOPE_CACHE_MB from the environment, or 512 MB.

    Raises:
        ValueError: it is not a positive number; the message names the `variable`.
    """
    setting = os.environ.get(BUDGET_VARIABLE, str(BUDGET))
    try:
        megabytes = float(setting)
    except ValueError:
        megabytes = math.nan
    if not 0 < megabytes < math.inf:
        raise ValueError(f"{variable} must be a number of megabytes above 0, not {setting!r}")
    return int(megabytes * MEGABYTE)


def held_parts(value: object, excluded: Collection[int] = ()) -> tuple[Parts, set[int]]:
    """Return the bytes of everything a value holds, each storage and each large object once.

    The second result holds the identities of all its objects except tensors. The keys are
    identities, too, and valid while the value exists. Small objects count with the value itself;
    objects whose identity is `excluded`, and what they refer to, do not count.
    """
    sizes: Parts = {}
    visited: set[int] = set()
    small = 0
    pending = [value]
    while pending:
        item = pending.pop()
        kind, identity = type(item), id(item)
        if kind in _PLAIN or identity in visited or identity in excluded:
            continue
        if isinstance(item, Tensor):
            storage = item.untyped_storage()
            sizes["storage", storage.data_ptr()] = storage.nbytes()
            continue
        visited.add(identity)
        size = sys.getsizeof(item, 0)
        if isinstance(item, np.ndarray):
            pending.append(item.base)  # the data of a view counts with its base
        elif isinstance(item, type):
            continue
        elif isinstance(item, dict):
            pending += item.keys()
            pending += item.values()
        elif isinstance(item, (list, tuple, set, frozenset)):
            pending += item
            pending.append(getattr(item, "__dict__", None))  # a subclass of tuple may hold more
        elif kind not in (str, bytes):  # a subclass of str may hold more
            pending.append(getattr(item, "__dict__", None))
        if size < _SMALL:
            small += size
        else:
            sizes[identity] = size
    if small:
        sizes[id(value)] = sizes.get(id(value), 0) + small
    return sizes, visited


class _Tally:
    """The bytes of several values together, with shared parts counted once."""

    def __init__(self) -> None:
        self.bytes = 0
        self._values: Counter[Hashable] = Counter()  # part → values that hold it

    def new(self, sizes: Parts) -> int:
        """Return the bytes that adding a value would add."""
        return sum(size for part, size in sizes.items() if part not in self._values)

    def add(self, sizes: Parts) -> None:
        self.bytes += self.new(sizes)
        self._values.update(sizes.keys())

    def remove(self, sizes: Parts) -> None:
        for part, size in sizes.items():
            self._values[part] -= 1
            if not self._values[part]:
                del self._values[part]
                self.bytes -= size


@dataclass(frozen=True)
class _Entry:
    value: Any
    parts: Parts
    bytes: int  # not shared with any other value when it was stored
    shared_ids: set[int] | None = None  # identities of what a shared value holds


class ByteCache:
    """Values by key, at most `budget` bytes of them, with shared parts counted once.

    The first thread to ask for a value computes it while the others wait; a value larger than the
    budget is returned to all of them but not stored. An evicted value is still found, and counted,
    as long as something refers to it, as sessions do to the runs they show; a quarter of the budget
    is reserved for stored values, whatever sessions hold. A shared value, an opened
    model, counts only while it is stored: it belongs to its users.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._kept, self._alive = _Tally(), _Tally()
        # least recently used first, in both
        self._long: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._others: OrderedDict[Hashable, _Entry] = OrderedDict()
        # weak references to all living values, and the parts to count until they are freed
        self._held: dict[Hashable, tuple[ref, Parts]] = {}
        self._gone: deque[tuple[Hashable, ref]] = deque()
        # identities of what the stored opened models hold, which their runs refer to
        self._shared: frozenset[int] = frozenset()
        self._under_way: dict[Hashable, Future] = {}
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        """The bytes of all values that are stored or still referred to."""
        with self._lock:
            self._forget_gone()
            return self._alive.bytes

    def get(self, key: Hashable, make: Callable[[], Cached], *, is_shared: bool = False) -> Cached:
        """Return the value stored under this key, or compute it with `make`; errors are raised.

        A shared value never counts as long.
        """
        with self._lock:
            for entries in (self._long, self._others):
                if key in entries:
                    entries.move_to_end(key)
                    return entries[key].value
            if (value := self._value_of(key)) is not None:
                return value
            future = self._under_way.get(key)
            is_first = future is None
            if is_first:
                future = self._under_way[key] = Future()
        if is_first:
            self._work_out(key, make, is_shared, future)
        return future.result()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._long or key in self._others or self._value_of(key) is not None

    def __len__(self) -> int:
        return len(self._long) + len(self._others)

    def _value_of(self, key: Hashable) -> Any:
        """Return the value under this key if something still refers to it."""
        entry = self._held.get(key)
        return entry and entry[0]()

    def _work_out(
        self, key: Hashable, make: Callable[[], Any], is_shared: bool, future: Future
    ) -> None:
        try:
            value = make()
            sizes, visited = held_parts(value, () if is_shared else self._shared)
        except BaseException as error:
            with self._lock:
                del self._under_way[key]
            future.set_exception(error)
            return
        with self._lock:
            self._keep(key, value, sizes, visited if is_shared else None)
            del self._under_way[key]
        future.set_result(value)

    def _keep(
        self, key: Hashable, value: object, sizes: Parts, shared_ids: set[int] | None
    ) -> None:
        """Store a value if it fits; `shared_ids` are the identities of what a shared one holds."""
        self._forget_gone()
        fits = sum(sizes.values()) <= self.budget
        while fits and len(self) and not self._has_room(sizes):
            self._drop()
            self._forget_gone()
        with suppress(TypeError):  # the type has no weak references
            self._hold(
                key, ref(value, partial(self._note, key)), {} if shared_ids is not None else sizes
            )
        if fits:
            new = self._kept.new(sizes)
            self._kept.add(sizes)
            self._alive.add(sizes)
            is_long = new > _LONG * self.budget and shared_ids is None
            if shared_ids is not None:
                self._shared |= shared_ids
            (self._long if is_long else self._others)[key] = _Entry(value, sizes, new, shared_ids)

    def _hold(self, key: Hashable, value: ref, sizes: Parts) -> None:
        if key in self._held:  # a previous value, freed by now
            self._alive.remove(self._held[key][1])
        self._alive.add(sizes)
        self._held[key] = value, sizes

    def _has_room(self, sizes: Parts) -> bool:
        total = self._kept.bytes + self._kept.new(sizes)
        alive = self._alive.bytes + self._alive.new(sizes)
        return alive <= self.budget or total <= _PROTECTED * self.budget

    def _drop(self) -> None:
        """Evict the least recently used value, a long one if these exceed their share."""
        long = sum(entry.bytes for entry in self._long.values())
        entries = (
            self._long if long > _PROTECTED * self.budget or not self._others else self._others
        )
        _, entry = entries.popitem(last=False)
        self._kept.remove(entry.parts)
        self._alive.remove(entry.parts)
        if entry.shared_ids is not None:
            rest = [e.shared_ids for e in self._others.values() if e.shared_ids is not None]
            self._shared = frozenset().union(*rest)

    def _note(self, key: Hashable, reference: ref) -> None:
        """Record that a value was freed.

        This may happen anywhere, even while this thread has the lock.
        """
        self._gone.append((key, reference))

    def _forget_gone(self) -> None:
        while self._gone:
            key, reference = self._gone.popleft()
            if (entry := self._held.get(key)) and entry[0] is reference:
                del self._held[key]
                self._alive.remove(entry[1])
