"""The one way an intermediate leaves a model, and an edited one comes back into it.

`with record() as recording:` collects what the forward pass marks with `tap` and `site`. The recording lives in a
ContextVar, so threads and sessions that share a model never see each other's tensors, and nothing is written onto it.
Attention is recorded by its causes (`site.py`), and so is whatever is one product away from the residual stream
(`deferred.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from torch import Tensor, nn

from models.layers.masks import Mask, SiteKind
from models.trace.activation import Activation
from models.trace.deferred import Product
from models.trace.edits.active import active
from models.trace.edits.base import Edits
from models.trace.site import Attention, AttentionSite
from models.trace.terms import ScoreTerm

LARGEST_KEPT = (
    2**16
)  # numbers in a q, k or v, 256 kB; larger ones are worked out again from x or memory when read
_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


class Placed(nn.Module):
    """A part of a model that marks intermediates under its path.

    The model tells it the path when it is made (models.architectures.base)."""

    path: str  # in the module tree


def free_name(path: str, taken: Container[str]) -> str:
    """Return the path, or, where that is taken, the path with the first free number from 2 on."""
    names = itertools.chain([path], (f"{path} ({i})" for i in itertools.count(2)))
    return next(name for name in names if name not in taken)


@dataclass
class Recording:
    """What one forward pass has marked so far, in order."""

    activations: dict[str, Activation] = field(default_factory=dict)
    attention: dict[str, AttentionSite] = field(default_factory=dict)
    unrecorded: dict[str, str] = field(default_factory=dict)  # name of an attention → the reason

    def tap(
        self, path: str, name: str, value: Tensor | Product, stream: str, feature: str, formula: str
    ) -> None:
        full = f"{path}.{name}" if path else name
        if full in self.activations:
            raise RuntimeError(f"two intermediates of this run are called {full}")
        value = _alone(value) if isinstance(value, Tensor) else value
        self.activations[full] = Activation(full, value, ("batch", stream, feature), formula)

    def site(
        self,
        module: Attention,
        x: Tensor,
        memory: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        out: Tensor,
        mask: Mask,
        terms: tuple[ScoreTerm, ...] = (),
        name: str = "",
        kind: SiteKind | None = None,
        edits: Edits = (),
    ) -> None:
        """An attention of this module; under another name and kind than the module's own, where it serves two streams."""
        projections = module.projections
        x, memory, q, k, v, out = map(_alone, (x, memory, q, k, v, out))
        if (
            projections
            and max(q.numel(), k.numel()) > LARGEST_KEPT
            and k.shape[2] == memory.shape[1]
        ):  # none from a cache
            causes = (("W_Q", x), ("W_K", memory), ("W_V", memory))
            q, k, v = (Product(cause, *projections[name], module.n_heads) for name, cause in causes)
        name = name or module.path
        self.attention[name] = AttentionSite(
            name,
            kind or module.kind,
            x,
            memory,
            q,
            k,
            v,
            out,
            mask,
            module.similarity.detached(),
            projections,
            terms=terms,
            edits=edits,
        )


def _alone(t: Tensor) -> Tensor:
    """Without gradients; itself where it has none, because a decoding step marks some eighty tensors."""
    return t.detach() if t.requires_grad else t


@contextmanager
def record(recording: Recording | None = None) -> Iterator[Recording]:
    """Record the forward passes made inside the block, in this thread of work only; go on with a `recording` begun before."""
    recording = Recording() if recording is None else recording
    token = _recording.set(recording)
    try:
        yield recording
    finally:
        _recording.reset(token)


def current() -> Recording | None:
    """The recording under way here, if any."""
    return _recording.get()


def tap(
    path: str,
    name: str,
    value: Tensor,
    stream: str,
    feature: str,
    formula: str,
    cause: Callable[[], Product] | None = None,
) -> Tensor:
    """Mark an intermediate (batch, token, feature) of a token stream, and return it: the same tensor, unless an edit changes it.

    Free when nobody records or edits. What `cause` gives is recorded in place of a value that is one product away from
    others, as long as no edit changes activations: then a value may differ from its cause."""
    edits = active()
    if edits is not None and edits.activations:
        value, cause = edits.activation(f"{path}.{name}" if path else name, value, stream), None
    if (recording := _recording.get()) is not None:
        kept = value if cause is None else cause()
        recording.tap(path, name, kept, stream, feature, formula)
    return value
