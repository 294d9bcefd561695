"""Recording of intermediates: the one way that a tensor leaves a model's forward pass.

`with record() as recording:` collects what the forward pass marks with `tap` and `site`. The
recording lives in a ContextVar, so threads and sessions that share a model never see each other's
tensors, and nothing is written onto it. A tensor that is one product away from the residual stream
is stored lazily (`lazy.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.layers.masks import Mask, SiteKind
from models.trace.activation import Activation
from models.trace.compiled import run_uncompiled
from models.trace.edits.active import active
from models.trace.edits.base import Edits
from models.trace.lazy import LazyLinear, LazyTensor
from models.trace.site import Attention, AttentionSite
from models.trace.terms import ScoreTerm

MAX_KEPT_ELEMENTS = 2**16  # elements of a stored q, k or v (256 kB); larger ones are lazy

# (batch, feature) of a token and its index in this pass → the edited vectors
TokenEditor = Callable[[Tensor, int], Tensor]

_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


class TracedModule(nn.Module):
    """A module that marks intermediates under its own path.

    The model sets the path when it is built (models.architectures.base).
    """

    path: str  # in the module tree


def free_name(path: str, used_names: Container[str]) -> str:
    """Return the path or, if it is taken, the path with the first free number from 2 on."""
    names = itertools.chain([path], (f"{path} ({i})" for i in itertools.count(2)))
    return next(name for name in names if name not in used_names)


@dataclass
class Recording:
    """The intermediates and attentions that one forward pass has marked so far, in order."""

    activations: dict[str, Activation] = field(default_factory=dict)
    attention: dict[str, AttentionSite] = field(default_factory=dict)
    unrecorded: dict[str, str] = field(default_factory=dict)  # name of an attention → the reason

    def tap(
        self, path: str, name: str, value: LazyTensor, stream: str, feature: str, formula: str
    ) -> None:
        """Store an intermediate (batch, token, feature) under `path` and `name`."""
        full = f"{path}.{name}" if path else name
        if full in self.activations:
            raise RuntimeError(f"two intermediates of this run are called {full}")
        value = _detach(value) if isinstance(value, Tensor) else value
        self.activations[full] = Activation(full, value, ("batch", stream, feature), formula)

    def site(
        self,
        module: Attention,
        x: Float[Tensor, "batch query d_x"],
        memory: Float[Tensor, "batch memory d_memory"],
        q: Float[Tensor, "batch head query d_q"],
        k: Float[Tensor, "batch head key d_k"],
        v: Float[Tensor, "batch head key d_v"],
        out: Float[Tensor, "batch head query d_v"],
        mask: Mask,
        terms: tuple[ScoreTerm, ...] = (),
        name: str = "",
        kind: SiteKind | None = None,
        edits: Edits = (),
    ) -> None:
        """Store an attention of this module.

        `name` and `kind` replace the module's own where one module serves two streams of states.
        """
        projections = module.projections
        x, memory, q, k, v, out = map(_detach, (x, memory, q, k, v, out))
        lazy_q: LazyTensor = q
        lazy_k: LazyTensor = k
        lazy_v: LazyTensor = v
        from_cache = k.shape[2] != memory.shape[1]
        if projections and max(q.numel(), k.numel()) > MAX_KEPT_ELEMENTS and not from_cache:
            lazy_q = LazyLinear(x, *projections["W_Q"], module.n_heads)
            lazy_k = LazyLinear(memory, *projections["W_K"], module.n_heads)
            lazy_v = LazyLinear(memory, *projections["W_V"], module.n_heads)
        name = name or module.path
        self.attention[name] = AttentionSite(
            name,
            kind or module.kind,
            x,
            memory,
            lazy_q,
            lazy_k,
            lazy_v,
            out,
            mask,
            module.similarity.detached(),
            projections,
            terms=terms,
            edits=edits,
        )


def _detach(t: Tensor) -> Tensor:
    """Return the tensor without gradients, or itself if it has none: a step marks some 80."""
    return t.detach() if t.requires_grad else t


@contextmanager
def record(recording: Recording | None = None) -> Iterator[Recording]:
    """Record the forward passes made inside the block, in this context only.

    A `recording` that is passed in is continued.
    """
    recording = Recording() if recording is None else recording
    token = _recording.set(recording)
    try:
        with run_uncompiled():
            yield recording
    finally:
        _recording.reset(token)


def current() -> Recording | None:
    """Return the recording in progress in this context, if any.

    There is none in compiled code, which is never recorded: see models.trace.compiled.
    """
    return None if torch.compiler.is_dynamo_compiling() else _recording.get()


def tap(
    path: str,
    name: str,
    value: Float[Tensor, "batch token feature"],
    stream: str,
    feature: str,
    formula: str,
    cause: Callable[[], LazyLinear] | None = None,
    *,
    is_edited: bool = False,
) -> Float[Tensor, "batch token feature"]:
    """Mark an intermediate and return it, the same tensor unless an edit changes it.

    It costs nothing while nothing is recorded or edited. If given, the result of `cause` is
    recorded instead of the value, which is then one product away from other tensors; but not while
    an edit changes activations, because the value may then differ from that product. `is_edited`
    says that a `token_editor` has already made the changes.
    """
    edits = active()
    if edits is not None and edits.activations:
        offer = edits.show if is_edited else edits.activation
        value, cause = offer(f"{path}.{name}" if path else name, value, stream), None
    if (recording := current()) is not None:
        stored = value if cause is None else cause()
        recording.tap(path, name, stored, stream, feature, formula)
    return value


def token_editor(path: str, name: str, stream: str) -> TokenEditor | None:
    """Return a function that edits one token of an intermediate; None if no edit may change it.

    A recurrence continues from the edited tokens, and then marks the whole intermediate with
    `tap(…, is_edited=True)`.
    """
    edits, full = active(), f"{path}.{name}" if path else name
    if edits is None or not edits.may_change(full):
        return None
    return lambda vectors, i: edits.token(full, vectors, stream, i)
