"""What is kept in memory within a budget of bytes, for all sessions: worked out once, least recently used out first."""

import math
import os
import sys
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import numpy as np
from torch import Tensor

MEGABYTE = 2**20
BUDGET_VARIABLE, BUDGET = "ATTNSCOPE_CACHE_MB", 512
_LONG = (
    1 / 64
)  # of the budget: what is larger, such as the run of a long text, goes before all else …
_SPARED = (
    1 / 4
)  # … but while all such together are no larger than this, they are out only in their turn
_PLAIN = (
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
)

Value = TypeVar("Value")


def budget(named: str = BUDGET_VARIABLE) -> int:
    """Bytes, from the environment variable ATTNSCOPE_CACHE_MB or 512 MB. Raises ValueError if it is no positive number, by the name
    under which it was `named`."""
    said = os.environ.get(BUDGET_VARIABLE, str(BUDGET))
    try:
        megabytes = float(said)
    except ValueError:
        megabytes = math.nan
    if not 0 < megabytes < math.inf:
        raise ValueError(f"{named} must be a number of megabytes above 0, not {said!r}")
    return int(megabytes * MEGABYTE)


def parts(value: object) -> dict[Hashable, int]:
    """Bytes of all that a value holds: each tensor's storage and each object once, by what it is known by while it lives."""
    found: dict[Hashable, int] = {}
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Tensor):
            storage = one.untyped_storage()
            found["storage", storage.data_ptr()] = storage.nbytes()
        elif id(one) in found or isinstance(one, _PLAIN):
            continue
        elif isinstance(one, np.ndarray):
            found[id(one)] = sys.getsizeof(one)  # a view's are those of its base
            waiting.append(one.base)
        else:
            found[id(one)] = sys.getsizeof(one, 0)
            if isinstance(one, dict):
                waiting += one.keys()
                waiting += one.values()
            elif isinstance(one, (list, tuple, set, frozenset)):
                waiting += one
            elif not isinstance(one, (str, bytes)):
                waiting.append(getattr(one, "__dict__", None))
    return found


@dataclass(frozen=True)
class _Entry:
    value: Any
    parts: dict[Hashable, int]
    bytes: int  # those that nothing else had when it came


class ByteCache:
    """Values by key, at most `budget` bytes of them, what they share counted once. Each is worked out by the first thread that
    asks for it, while the others wait; one that is larger than the budget is given to all of them and not kept. What is not kept
    any more is still found while anybody else holds it."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.bytes = 0
        self._used: Counter[Hashable] = Counter()  # part → entries that hold it
        self._long: OrderedDict[Hashable, _Entry] = (
            OrderedDict()
        )  # least recently used first, here and there
        self._others: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._held: WeakValueDictionary[Hashable, Any] = (
            WeakValueDictionary()
        )  # by whoever asked for them
        self._under_way: dict[Hashable, Future] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Value], *, spared: bool = False) -> Value:
        """The value kept under this key, else what `make` returns, or the error it raises; a `spared` one never counts as long."""
        with self._lock:
            for entries in (self._long, self._others):
                if key in entries:
                    entries.move_to_end(key)
                    return entries[key].value
            if (held := self._held.get(key)) is not None:
                return held
            future = self._under_way.get(key)
            mine = future is None
            if mine:
                future = self._under_way[key] = Future()
        if mine:
            self._work_out(key, make, spared, future)
        return future.result()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._long or key in self._others or key in self._held

    def __len__(self) -> int:
        return len(self._long) + len(self._others)

    def _work_out(
        self, key: Hashable, make: Callable[[], Any], spared: bool, future: Future
    ) -> None:
        try:
            value = make()
            found = parts(value)
        except BaseException as error:
            with self._lock:
                del self._under_way[key]
            future.set_exception(error)
            return
        with self._lock:
            self._keep(key, value, found, spared)
            with suppress(TypeError):  # of a kind that nothing can refer to weakly
                self._held[key] = value
            del self._under_way[key]
        future.set_result(value)

    def _keep(self, key: Hashable, value: object, found: dict[Hashable, int], spared: bool) -> None:
        if sum(found.values()) > self.budget:
            return
        new = sum(size for part, size in found.items() if part not in self._used)
        while self.bytes + new > self.budget:
            self._drop()
            new = sum(size for part, size in found.items() if part not in self._used)
        self._used.update(found.keys())
        self.bytes += new
        entries = self._long if new > _LONG * self.budget and not spared else self._others
        entries[key] = _Entry(value, found, new)

    def _drop(self) -> None:
        """The least recently used of those whose turn it is."""
        long = sum(entry.bytes for entry in self._long.values())
        entries = self._long if long > _SPARED * self.budget or not self._others else self._others
        _, entry = entries.popitem(last=False)
        for part, size in entry.parts.items():
            self._used[part] -= 1
            if not self._used[part]:
                del self._used[part]
                self.bytes -= size
