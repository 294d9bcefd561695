"""Passes that begin at a later layer: earlier ones return what they returned in a first pass.

Heads that are edited one after the other on the same text leave all layers before their own as they
were. A layer is the module whose path the names of its attentions begin with, up to a number. Where
there is none, or a layer runs twice in a pass, whole passes are made.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial, wraps
from types import MethodType
from typing import Any

from torch import Tensor, nn

from models.trace.edits.base import Edit

_NUMBERED = re.compile(r"(.*?\.\d+)\.")  # the module of the layer that an attention is part of
LAST_PRODUCT = "the product with the vocabulary"
_installed = threading.Lock()
_in_force: ContextVar[Callable | None] = ContextVar("layer", default=None)


class LayerOutputs:
    """The outputs of a model's layers for one row, kept in one pass and reused in others."""

    def __init__(self, model: nn.Module, sites: Iterable[str]) -> None:
        """Take the names of the attentions, in the order in which they are computed."""
        matches = [_NUMBERED.match(site) for site in sites]
        self.layers = list(dict.fromkeys(match[1] for match in matches if match))
        self.outputs: dict[str, Any] = {}
        self._twice: set[str] = set()
        root = getattr(model, "module", model)
        parts = {path: _part(root, path) for path in self.layers} | {
            LAST_PRODUCT: _last_product(root)
        }
        self._paths = {part: path for path, part in parts.items() if part is not None}
        for part in self._paths:
            _let_reuse(part)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep what the layers return in the pass made inside the block."""

        def call(part: nn.Module, args: Any, kwargs: Any) -> Any:
            output, path = type(part).forward(part, *args, **kwargs), self._paths.get(part)
            if path in self.outputs:
                self._twice.add(path)
            if path is not None:
                self.outputs[path] = output
            return output

        with _calling(call):
            yield

    @contextmanager
    def reused(self, first: int, n_rows: int, position: int | None = None) -> Iterator[None]:
        """Begin the pass inside the block at layer `first`, for copies of the row.

        With a `position`, a last product with the vocabulary is only computed there.
        """
        skipped = set(self.layers[:first])

        def call(part: nn.Module, args: Any, kwargs: Any) -> Any:
            path, forward = self._paths.get(part), partial(type(part).forward, part)
            if path is not None and path in skipped:
                return _repeat(self.outputs[path], n_rows)
            if path == LAST_PRODUCT and position is not None and args and args[0].dim() == 3:
                logits = _repeat(self.outputs[path], n_rows)
                logits[:, position] = forward(args[0][:, position])
                return logits
            return forward(*args, **kwargs)

        with _calling(call):
            yield

    @property
    def is_complete(self) -> bool:
        """True if each layer has run once."""
        return bool(self.layers) and not self._twice and self.outputs.keys() >= set(self.layers)

    def first_edited(self, edits: Sequence[Edit]) -> int:
        """Return the number of the first layer that any of these edits may change."""
        return min(map(self._layer_of, edits), default=0)

    def _layer_of(self, edit: Edit) -> int:
        site = edit.where.site
        match = _NUMBERED.match(site) if site else None
        is_known = match is not None and match[1] in self.layers
        return self.layers.index(match[1]) if match is not None and is_known else 0


@contextmanager
def _calling(call: Callable) -> Iterator[None]:
    token = _in_force.set(call)
    try:
        yield
    finally:
        _in_force.reset(token)


def _let_reuse(part: nn.Module) -> None:
    """Let a block above decide what a module returns; outside such blocks it runs as usual."""
    original = type(part).forward

    @wraps(original)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        call = _in_force.get()
        return original(self, *args, **kwargs) if call is None else call(self, args, kwargs)

    with _installed:
        if "forward" not in vars(part):
            part.forward = MethodType(forward, part)  # copies of the module bind their own


def _part(root: nn.Module, path: str) -> nn.Module | None:
    try:
        return root.get_submodule(path)
    except AttributeError:
        return None


def _last_product(root: nn.Module) -> nn.Module | None:
    """Return the product with the vocabulary, where it is a module of its own."""
    get = getattr(root, "get_output_embeddings", None)
    last = None if get is None else get()
    return last if isinstance(last, nn.Linear) else None


def _repeat(output: Any, n_rows: int) -> Any:
    """Repeat a layer's output for one row over `n_rows` rows."""
    if isinstance(output, Tensor):
        return output.repeat(n_rows, *[1] * (output.dim() - 1)) if len(output) == 1 else output
    if isinstance(output, tuple):
        return tuple(_repeat(each, n_rows) for each in output)
    return output
