"""The edits in force, in a ContextVar: sessions that share a model never see each other's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar

import torch
from jaxtyping import Float
from torch import Tensor

from models.layers.masks import Mask
from models.trace.compiled import run_uncompiled
from models.trace.edits.base import ActivationPart, AttentionPart, Edit, Edits
from models.trace.edits.selection import effective


class Active:
    """Edits in force, and the masks they have changed so far, which layers share."""

    def __init__(self, edits: Edits, starts: Mapping[str, int]) -> None:
        self.edits, self.starts = edits, starts
        self.activations = tuple(edit for edit in edits if edit.changes("activation"))
        self.offered: set[str] = set()  # names of the intermediates that edits could change so far
        # paths of the attentions that they could change so far, in order
        self.reached: dict[str, None] = {}
        self._masks: dict[tuple, tuple[Mask, Mask]] = {}

    def at(self, kind: str, site: str, layer: int) -> Edits:
        """Return the edits that apply to this attention."""
        self.reached[site] = None
        return tuple(edit for edit in self.edits if edit.where.meets(kind, site, layer))

    def mask(self, mask: Mask, edits: Edits, part: AttentionPart) -> Mask:
        """Apply edits to a mask, which is returned itself if none changes it.

        Attentions that share a mask and have equal sizes share the changed one.
        """
        edits = tuple(edit for edit in edits if edit.changes("mask"))
        if not edits:
            return mask
        # an edit may read the part's sizes and the numbers of its heads
        sizes = len(part.rows), tuple(part.heads), len(part.queries), part.n_key
        key = (id(mask), edits, sizes)
        if key not in self._masks:
            edited = mask
            for edit in edits:
                edited = edit.mask(edited, part)
            self._masks[key] = mask, edited  # keeping the mask alive keeps its id unique
        return self._masks[key][1]

    def activation(
        self, name: str, value: Float[Tensor, "batch token feature"], stream: str
    ) -> Float[Tensor, "batch token feature"]:
        """Apply edits to an intermediate of a stream."""
        return self._offer(self.activations, name, value, stream)

    def may_change(self, name: str) -> bool:
        """Return True if an edit may change this intermediate."""
        return any(edit.may_change(name) for edit in self.activations)

    def token(
        self, name: str, vectors: Float[Tensor, "batch feature"], stream: str, i: int
    ) -> Float[Tensor, "batch feature"]:
        """Apply the edits that may change an intermediate to its token i of this pass."""
        changing = tuple(edit for edit in self.activations if edit.may_change(name))
        return self._offer(changing, name, vectors[:, None], stream, i)[:, 0]

    def show(
        self, name: str, value: Float[Tensor, "batch token feature"], stream: str
    ) -> Float[Tensor, "batch token feature"]:
        """Offer an intermediate whose tokens are edited to the edits that only look at it."""
        looking = tuple(edit for edit in self.activations if not edit.may_change(name))
        return self._offer(looking, name, value, stream)

    def _offer(
        self,
        edits: Edits,
        name: str,
        value: Float[Tensor, "batch token feature"],
        stream: str,
        first: int = 0,
    ) -> Float[Tensor, "batch token feature"]:
        self.offered.add(name)
        start = self.starts.get(stream, 0) + first
        batch, n = value.shape[:2]
        part = ActivationPart(name, stream, range(batch), range(start, start + n), value.device)
        for edit in edits:
            if edit.where.activation in (None, name):
                value = edit.activation(value, part)
        return value


_active: ContextVar[Active | None] = ContextVar("edits", default=None)


@contextmanager
def editing(
    edits: Iterable[Edit], starts: Mapping[str, int] | None = None
) -> Iterator[Active | None]:
    """Apply edits to the forward passes made inside the block, in this context only.

    `starts` gives the position of the first token of a stream whose earlier tokens come from a
    cache. Yields the edits in force, None if there are none.
    """
    remaining = effective(edits)
    in_force = Active(remaining, starts or {}) if remaining else None
    token = _active.set(in_force)
    try:
        with run_uncompiled() if in_force else nullcontext():
            yield in_force
    finally:
        _active.reset(token)


def active() -> Active | None:
    """Return the edits in force here, if any. There are none in compiled code."""
    return None if torch.compiler.is_dynamo_compiling() else _active.get()
