"""The one way an intermediate leaves a model.

`with record() as recording:` collects what the forward pass marks with `tap` and `site`. The recording lives in a
ContextVar, so threads and sessions that share a model never see each other's tensors, and nothing is written onto it.
Attention is recorded by its causes (q, k, v, mask, similarity), O(n·d); scores and weights are derived when asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float
from torch import Tensor

if TYPE_CHECKING:
    from models.attention import MultiHeadAttention
    from models.masks import Mask
    from models.tokenizer import Encoding

_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


@dataclass(frozen=True)
class Activation:
    """One named intermediate: value (batch, token, feature), what its axes mean, and how it was made."""

    name: str
    value: Tensor
    axes: tuple[str, str, str]
    formula: str
    tokens: tuple[str, ...] = ()


@dataclass(frozen=True)
class AttentionSite:
    """One attention of one run, by its causes. Shapes: q (batch, head, query, d_head); k, v (batch, head, key, d_head);
    `out` is what the fused kernel returned, (batch, head, query, d_head)."""

    name: str
    kind: str
    x: Tensor         # what W_Q was applied to, (batch, query, d_model)
    memory: Tensor    # what W_K and W_V were applied to, (batch, key, d_model); with a cache, the new positions only
    q: Tensor
    k: Tensor
    v: Tensor
    out: Tensor
    mask: Mask
    similarity: Callable[[Tensor, Tensor], Tensor]
    projections: dict[str, tuple[Tensor, Tensor]]     # W_Q W_K W_V W_O → (weight, bias) of that nn.Linear
    query_tokens: tuple[str, ...] = ()
    key_tokens: tuple[str, ...] = ()

    @property
    def layer(self) -> int:
        """The layer's number, from 0, within its stack."""
        return next(int(part) for part in self.name.split(".") if part.isdigit())

    @property
    def n_heads(self) -> int:
        return self.q.shape[1]

    @property
    def d_head(self) -> int:
        return self.q.shape[3]

    def allowed(self, batch: int = 0, head: int = 0) -> Bool[Tensor, "query key"]:
        """True where the mask lets the query see the key."""
        return self.mask.expanded(batch, head, self.q.shape[2], self.k.shape[2])

    def blocked_by(self, query: int, key: int, batch: int = 0) -> list[str]:
        """Names of the mask layers that block this cell; empty if it is open."""
        return self.mask.blocked_by(query, key, self.q.shape[2], self.k.shape[2], batch)

    def scores(self, head: int | None = None, batch: int = 0) -> Float[Tensor, "*head query key"]:
        """Scaled similarity before the mask, of one head or of all."""
        pick = slice(None) if head is None else head
        return self.similarity(self.q[batch, pick], self.k[batch, pick])

    def weights(self, head: int | None = None, batch: int = 0) -> Float[Tensor, "*head query key"]:
        """softmax of the masked scores. Rows sum to 1; a row with nothing allowed is all zeros."""
        from models.attention import masked_softmax

        allowed = None if self.mask.allowed is None else self.allowed(batch, head or 0)
        return masked_softmax(self.scores(head, batch), allowed)

    def head_out(self, head: int | None = None, batch: int = 0) -> Float[Tensor, "*head query d_head"]:
        """weights · v, before W_O."""
        pick = slice(None) if head is None else head
        return self.weights(head, batch) @ self.v[batch, pick]


@dataclass
class Recording:
    """What one forward pass has marked so far, in order."""

    activations: dict[str, Activation] = field(default_factory=dict)
    attention: dict[str, AttentionSite] = field(default_factory=dict)

    def tap(self, path: str, name: str, value: Tensor, stream: str, feature: str, formula: str) -> None:
        full = f"{path}.{name}" if path else name
        self.activations[full] = Activation(full, value.detach(), ("batch", stream, feature), formula)

    def site(
        self,
        module: MultiHeadAttention,
        x: Tensor,
        memory: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        out: Tensor,
        mask: Mask,
        similarity: Callable[[Tensor, Tensor], Tensor],
    ) -> None:
        projections = {n: (w.weight.detach(), w.bias.detach()) for n, w in module.named_children()}
        tensors = (t.detach() for t in (x, memory, q, k, v, out))
        self.attention[module.path] = AttentionSite(module.path, module.kind, *tensors, mask, similarity, projections)


@contextmanager
def record() -> Iterator[Recording]:
    """Record the forward passes made inside the block, in this thread of work only."""
    recording = Recording()
    token = _recording.set(recording)
    try:
        yield recording
    finally:
        _recording.reset(token)


def current() -> Recording | None:
    """The recording under way here, if any."""
    return _recording.get()


def tap(path: str, name: str, value: Tensor, stream: str, feature: str, formula: str) -> None:
    """Mark an intermediate (batch, token, feature) of the token stream "source" or "target"; free when nobody records."""
    if (recording := _recording.get()) is not None:
        recording.tap(path, name, value, stream, feature, formula)


@dataclass(frozen=True)
class Trace:
    """A finished run: every recorded tensor on the CPU in float32, with the tokens on each axis. Read-only by convention.

    `target` is the decoder's input row, shifted right (<s> y₁ y₂ …); `predicted` is the model's first choice after each
    of its positions; `output` is the text the model wrote, or under teacher forcing the text of `predicted`.
    """

    source: Encoding
    target: Encoding
    predicted: tuple[str, ...]
    output: str
    teacher_forced: bool
    logits: Float[Tensor, "n vocab"]
    activations: dict[str, Activation]
    attention: dict[str, AttentionSite]


def finish(
    recording: Recording, tokens: dict[str, tuple[str, ...]], row: int = 0
) -> tuple[dict[str, Activation], dict[str, AttentionSite]]:
    """One batch row of a recording, on the CPU in float32, with the tokens of each stream ("source", "target") on its axes.

    The batch axis stays, of size 1."""
    from models.attention import STREAMS

    def still(t: Tensor) -> Tensor:
        pick = min(row, t.shape[0] - 1)
        return t[pick : pick + 1].to("cpu", torch.float32)

    activations = {
        n: replace(a, value=still(a.value), tokens=tokens[a.axes[1]]) for n, a in recording.activations.items()
    }
    sites = {
        name: replace(
            s,
            **{part: still(getattr(s, part)) for part in ("x", "memory", "q", "k", "v", "out")},
            mask=s.mask.row(row),
            projections={n: (w.to("cpu", torch.float32), b.to("cpu", torch.float32)) for n, (w, b) in s.projections.items()},
            query_tokens=tokens[STREAMS[s.kind][0]],
            key_tokens=tokens[STREAMS[s.kind][1]],
        )
        for name, s in recording.attention.items()
    }
    return activations, sites
