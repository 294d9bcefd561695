"""Compiled functions (torch.compile) while a run is recorded or edited.

Compiled code marks nothing and knows no edits (`current()` and `active()` are None in it), so
`record()` and `editing()` run the functions uncompiled.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_COMPILERS = ("torch._dynamo", "torch.nn.attention.flex_attention")
_lock, _blocks = threading.Lock(), 0  # blocks of `run_uncompiled()` that are open, in all threads
_stance: Any = None


@contextmanager
def run_uncompiled() -> Iterator[None]:
    """Run compiled functions uncompiled, in all threads, until the last block ends.

    There is nothing to do before a module that can compile is imported.
    """
    global _blocks, _stance
    if not any(name in sys.modules for name in _COMPILERS):
        yield
        return
    with _lock:
        if not _blocks:
            _stance = torch.compiler.set_stance("force_eager")
        _blocks += 1
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            if not _blocks:
                _stance.__exit__(None, None, None)
