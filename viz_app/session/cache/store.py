"""The cache of results, keyed by the fingerprint of the weights that computed them."""

from collections.abc import Callable, Hashable
from typing import TypeVar

from models import Scope
from viz_app.session.byte_cache import ByteCache, budget

Value = TypeVar("Value")

kept = ByteCache(budget())


def cached(scope: Scope, *what: Hashable, make: Callable[[], Value], spared: bool = False) -> Value:
    """Return the result cached under these weights and `what`, or compute it with `make`."""
    return kept.get((scope.fingerprint, *what), make, spared=spared)
