"""Memory that long texts have taken, given back to the system."""

import ctypes
import ctypes.util
import gc
from collections.abc import Callable
from functools import cache


def give_back() -> None:
    """Collect what is in reference cycles, and hand free memory back to the system where the C library can (glibc).

    What a long text's run takes is freed in pieces, which the allocator keeps for itself."""
    gc.collect()
    _trim()(0)


@cache
def _trim() -> Callable[[int], int]:
    """glibc's malloc_trim; of another C library a function that does nothing."""
    try:
        return ctypes.CDLL(ctypes.util.find_library("c")).malloc_trim
    except (AttributeError, OSError, TypeError):
        return lambda pad: 0
