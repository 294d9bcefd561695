"""What a server process does for all its sessions: torch threads, garbage, freed memory."""

import ctypes
import ctypes.util
import gc
import os
import threading
from collections.abc import Callable
from functools import cache

import streamlit as st
import torch

MERGE_SECONDS = 1.0  # s in which further requests are merged into one

_lock = threading.Lock()
_timers: list[threading.Timer] = []  # the one that is running


@st.cache_resource(show_spinner=False)
def prepare() -> int:
    """Set the number of torch threads, once per process before any run.

    Many sessions share the cores, and on the small tensors of a single text several threads mostly
    wait for each other (measured: 5 to 15 times slower on a busy machine).
    """
    threads = max(1, (os.cpu_count() or 1) // 4)
    torch.set_num_threads(threads)
    return threads


@st.cache_resource(show_spinner=False)
def freeze_garbage() -> bool:
    """Exempt everything loaded so far from garbage collection, once, after the first page."""
    gc.collect()
    gc.freeze()
    return True


def release_memory_soon() -> None:
    """Schedule one return of memory shortly, in its own thread, however often this is called."""
    with _lock:
        if not _timers:
            timer = threading.Timer(MERGE_SECONDS, _give_back)
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
