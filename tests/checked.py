"""The type checker of the tests: beartype, to which an int is also a float (PEP 484)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from beartype import BeartypeConf, beartype
from jaxtyping import config

_checked = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(defined: Any) -> Any:
    """Checks the calls of a function or the fields of a class. What is defined within a function is left as it is: it would be
    wrapped anew at every call of that, which takes milliseconds."""
    return defined if "<locals>" in defined.__qualname__ else _checked(defined)


@contextmanager
def unchecked() -> Iterator[None]:
    """Calls into `models` go unchecked, at a user's speed: for trainings, and for thousands of calls that are alike."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", before)
