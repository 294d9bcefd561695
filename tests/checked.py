"""The type checker of the tests: beartype, to which an int is also a float (PEP 484)."""

import builtins
import dataclasses
import functools
import inspect
import re
import typing
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jaxtyping
import torch
from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray, AbstractDtype, config

_checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
_jaxtyped = jaxtyping.jaxtyped
_passed: set[tuple] = set()  # forms of calls that have passed
_calls: Counter[Callable] = Counter()  # of each function in this file of tests
MOST_CALLS = 100  # of a function that are looked at in a file; later ones, as in a loop, are not


def install(package: str) -> None:
    """Check every call into a package that is imported from now on, against its annotations, shapes and types."""
    jaxtyping.install_import_hook(package, "checked.checked")
    jaxtyping.jaxtyped = _by_need


def checked(defined: Any) -> Any:
    """Check the calls of a function or the fields of a class. A function defined within another one is left as it is: it would be
    wrapped anew at every call of the outer one, which takes milliseconds."""
    return defined if "<locals>" in defined.__qualname__ else _checked(defined)


def forget() -> None:
    """Forget which calls have passed, so that they are checked again."""
    _passed.clear()
    _calls.clear()


@contextmanager
def unchecked() -> Iterator[None]:
    """Leave calls into `models` unchecked, at a user's speed: for training, and for thousands of similar calls."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", before)


def _by_need(*, typechecker: Callable) -> Callable[[Any], Any]:
    """Check a call of a function unless one with the same shapes and types has passed in this file. A check is built when it is
    first needed: a worker never calls most functions, and jaxtyping's checks are slow even to build.
    Functions without shapes are left to the type checker alone: jaxtyping binds all arguments at each call, 20 µs."""

    def decorate(defined: Any) -> Any:
        if inspect.isclass(defined):
            if dataclasses.is_dataclass(defined) and "__init__" in vars(defined):
                defined.__init__ = decorate(defined.__init__)
            return defined
        if not inspect.isfunction(defined):
            return _jaxtyped(defined, typechecker=typechecker)
        if not defined.__annotations__ or "<locals>" in defined.__qualname__:
            return defined

        @functools.cache
        def strict() -> Callable:
            if _may_have_shapes(defined):
                return _jaxtyped(defined, typechecker=typechecker)
            return typechecker(defined)

        @functools.wraps(defined)
        def switched(*args: Any, **kwargs: Any) -> Any:
            if config.jaxtyping_disable or _calls[defined] >= MOST_CALLS:
                return defined(*args, **kwargs)
            _calls[defined] += 1
            call = (defined, *map(_form, args), *kwargs, *map(_form, kwargs.values()))
            if call in _passed:
                return defined(*args, **kwargs)
            result = strict()(*args, **kwargs)
            _passed.add(call)
            return result

        return switched

    return decorate


def _form(value: Any) -> Any:
    """Return the part of an argument that an annotation constrains: shape, type, length of a sequence; for a module its identity."""
    if isinstance(value, torch.Tensor):
        return value.shape, value.dtype
    if isinstance(value, torch.nn.Module):
        return id(value)
    kind = type(value)
    return (kind, len(value)) if kind in (list, tuple, dict) else kind


def _may_have_shapes(function: Callable) -> bool:
    """Return whether an annotation of a function contains the shape of an array, or a name that is not defined yet."""
    known = vars(builtins) | function.__globals__
    return any(_may_be_shaped(one, known) for one in function.__annotations__.values())


def _may_be_shaped(annotation: Any, known: dict[str, Any]) -> bool:
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        names = re.findall(r"(?<![\w.])[A-Za-z_]\w*", annotation)
        return (
            '"' in annotation
            or "'" in annotation
            or any(name not in known or _may_be_shaped(known[name], known) for name in names)
        )
    if inspect.isclass(annotation) and issubclass(annotation, AbstractArray | AbstractDtype):
        return True
    return any(_may_be_shaped(part, known) for part in typing.get_args(annotation))
