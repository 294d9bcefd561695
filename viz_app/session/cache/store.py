"""The one store of what is kept between reruns, and under what: the fingerprint of the weights that computed it."""

from collections.abc import Callable, Hashable
from typing import TypeVar

from models import Scope
from viz_app.session.byte_cache import ByteCache, budget

Value = TypeVar("Value")

kept = ByteCache(budget())


def cached(scope: Scope, *what: Hashable, make: Callable[[], Value], spared: bool = False) -> Value:
    """What is kept of these weights."""
    return kept.get((scope.fingerprint, *what), make, spared=spared)
