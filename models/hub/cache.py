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


def of_library(cache: Cache, config: Any, crosses: bool = False) -> LibraryCache:
    """Return the one in this cache, made at the first call; for a decoder that `crosses` to a source, of both attentions."""
    return cache.other(_PATH, lambda: LibraryCache(_library_cache(config, crosses)))


def _library_cache(config: Any, crosses: bool) -> Any:
    from transformers import DynamicCache, EncoderDecoderCache

    past = DynamicCache(config=config)
    past.layers = [_without_window(layer) for layer in past.layers]
    return EncoderDecoderCache(past, DynamicCache()) if crosses else past


def _without_window(layer: Any) -> Any:
    """Return a layer that keeps all keys: the mask hides those outside a window, and each step shows the whole row."""
    from transformers import cache_utils

    if isinstance(layer, cache_utils.LinearAttentionAndSlidingWindowAttentionLayer):
        return cache_utils.LinearAttentionAndFullAttentionLayer(layer.number_of_states)
    return (
        cache_utils.DynamicLayer()
        if isinstance(layer, cache_utils.DynamicSlidingWindowLayer)
        else layer
    )
