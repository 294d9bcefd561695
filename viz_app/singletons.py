"""Objects that exist once in a process, whichever thread asks first."""

import functools
import threading
from collections.abc import Callable
from typing import Any


def made_once(make: Callable[..., Any]) -> Any:
    """Cache what a function makes of its arguments, as functools.cache does, but under a lock.

    functools.cache lets two threads that ask at the same time each make an object of their own.
    """
    cached, lock = functools.cache(make), threading.RLock()

    @functools.wraps(cached)
    def made(*arguments: Any) -> Any:
        with lock:
            return cached(*arguments)

    made.cache_info, made.cache_clear = cached.cache_info, cached.cache_clear  # type: ignore[attr-defined]
    return made
