"""Returning the memory of long texts and closed sessions to the operating system."""

import ctypes
import ctypes.util
import gc
import threading
from collections.abc import Callable
from functools import cache

REST = 1.0  # s in which further requests are merged into one

_lock = threading.Lock()
_timers: list[threading.Timer] = []  # the one that is running


def give_back_soon() -> None:
    """Schedule one return of memory shortly, in its own thread, however often this is called."""
    with _lock:
        if not _timers:
            timer = threading.Timer(REST, _give_back)
            timer.daemon = True
            _timers.append(timer)
            timer.start()


def _give_back() -> None:
    """Collect reference cycles, and return free memory to the system where glibc can.

    The memory of a long text's run is freed in small pieces, which the allocator otherwise keeps.
    """
    with _lock:
        _timers.clear()
    gc.collect()
    _trim()(0)


@cache
def _trim() -> Callable[[int], int]:
    """Return glibc's malloc_trim, or a no-op for other C libraries."""
    try:
        return ctypes.CDLL(ctypes.util.find_library("c")).malloc_trim
    except (AttributeError, OSError, TypeError):
        return lambda pad: 0
