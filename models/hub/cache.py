"""transformers' cache of keys and values, inside ours, so that a run that goes back or sorts its rows does both in one place."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from models.layers.cache import Cache

_PATH = "library"


class LibraryCache:
    """What one decoding run keeps in a form of transformers'."""

    def __init__(self, past: Any) -> None:
        self.past = past

    def cut(self, n: int) -> None:
        """Forget all positions of the written stream but the first n."""
        self.past.crop(-(self.past.get_seq_length() - n))

    def reorder(self, rows: Tensor) -> None:
        """Keep these batch rows, in this order."""
        self.past.reorder_cache(rows)


def of_library(cache: Cache, crosses: bool = False) -> LibraryCache:
    """The one that lies in this cache, made at the first call; for a decoder that `crosses` to a source, of both attentions."""
    return cache.other(_PATH, lambda: LibraryCache(_library_cache(crosses)))


def _library_cache(crosses: bool) -> Any:
    from transformers import DynamicCache, EncoderDecoderCache

    return EncoderDecoderCache(DynamicCache(), DynamicCache()) if crosses else DynamicCache()
