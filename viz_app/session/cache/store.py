"""The cache of results, keyed by the fingerprint of the weights that computed them."""

from collections.abc import Callable, Hashable
from typing import TypeVar

from models import Scope
from viz_app.session.byte_cache import ByteCache, budget

Stored = TypeVar("Stored")

cache_store = ByteCache(budget())


def cached(
    scope: Scope, *what: Hashable, make: Callable[[], Stored], is_shared: bool = False
) -> Stored:
    """Return the result cached under these weights and `what`, or compute it with `make`."""
    return cache_store.get((scope.fingerprint, *what), make, is_shared=is_shared)
