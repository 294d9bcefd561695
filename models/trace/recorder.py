"""The one way an intermediate leaves a model.

`with record() as recording:` collects what the forward pass marks with `tap` and `site`. The recording lives in a
ContextVar, so threads and sessions that share a model never see each other's tensors, and nothing is written onto it.
Attention is recorded by its causes (q, k, v, mask, similarity), O(n·d); scores and weights are derived when asked, and
so is whatever is one product away from the residual stream (`models/trace/deferred.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.layers.masks import STREAMS, Mask
from models.layers.similarity import Similarity, masked_softmax
from models.trace.deferred import Kept, Product

if TYPE_CHECKING:
    from models.architectures.seq2seq import Alignment
    from models.layers.attention import MultiHeadAttention
    from models.tokenizers.base import Encoding

LARGEST_KEPT = 2**16   # numbers in a q, k or v, 256 kB; larger ones are worked out again from x or memory when read
_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


@dataclass(frozen=True)
class Activation:
    """One named intermediate: value (batch, token, feature), what its axes mean, and how it was made."""

    name: str
    value: Tensor | Product = Kept()   # noqa: RUF009 (a descriptor; reads as a tensor)
    axes: tuple[str, str, str]
    formula: str
    tokens: tuple[str, ...] = ()

    @property
    def kept(self) -> Tensor | Product:
        """The value without working it out."""
        return self._value


@dataclass(frozen=True)
class AttentionSite:
    """One attention of one run, by its causes. Shapes: q (batch, head, query, d_head); k, v (batch, head, key, d_head);
    `out` is what the fused kernel returned, (batch, head, query, d_head)."""

    name: str
    kind: str
    x: Tensor         # what W_Q was applied to, (batch, query, d_model)
    memory: Tensor    # what W_K and W_V were applied to, (batch, key, d_model); with a cache, the new positions only
    q: Tensor | Product = Kept()   # noqa: RUF009 (a descriptor; reads as a tensor)
    k: Tensor | Product = Kept()   # noqa: RUF009 (a descriptor; reads as a tensor)
    v: Tensor | Product = Kept()   # noqa: RUF009 (a descriptor; reads as a tensor)
    out: Tensor
    mask: Mask
    similarity: Similarity
    projections: dict[str, tuple[Tensor, Tensor]]     # W_Q W_K W_V W_O → (weight, bias) of that nn.Linear; none in an RNN's
    query_tokens: tuple[str, ...] = ()
    key_tokens: tuple[str, ...] = ()

    @property
    def layer(self) -> int:
        """The layer's number, from 0, within its stack."""
        return next((int(part) for part in self.name.split(".") if part.isdigit()), 0)

    @property
    def n_heads(self) -> int:
        return self.out.shape[1]

    @property
    def d_head(self) -> int:
        return self.kept("q").shape[3]

    @property
    def n_query(self) -> int:
        return self.out.shape[2]

    @property
    def n_key(self) -> int:
        return self.kept("k").shape[2]

    def kept(self, part: str) -> Tensor | Product:
        """q, k or v without working it out."""
        return getattr(self, f"_{part}")

    def allowed(self, batch: int = 0, head: int | None = 0) -> Bool[Tensor, "*head query key"]:
        """True where the mask lets the query see the key, in one head or (None) in all."""
        allowed = self.mask.expanded(batch, head, self.n_query, self.n_key)
        return allowed if head is not None else allowed.expand(self.n_heads, self.n_query, self.n_key)

    def blocked_by(self, query: int, key: int, batch: int = 0, head: int = 0) -> list[str]:
        """Names of the mask layers that block this cell; empty if it is open."""
        return self.mask.blocked_by(query, key, self.n_query, self.n_key, batch, head)

    def scores(self, head: int | None = None, batch: int = 0) -> Float[Tensor, "*head query key"]:
        """Scaled similarity before the mask, of one head or of all."""
        return self.similarity(self._part("q", head, batch), self._part("k", head, batch))

    def weights(self, head: int | None = None, batch: int = 0) -> Float[Tensor, "*head query key"]:
        """softmax of the masked scores. Rows sum to 1; a row with nothing allowed is all zeros."""
        return masked_softmax(self.scores(head, batch), self.allowed(batch, head))

    def head_out(self, head: int | None = None, batch: int = 0) -> Float[Tensor, "*head query d_head"]:
        """weights · v, before W_O."""
        return self.weights(head, batch) @ self._part("v", head, batch)

    def _part(self, part: str, head: int | None, batch: int) -> Tensor:
        if head is None:
            return getattr(self, part)[batch]
        held = self.kept(part)
        return held.read_head(batch, head) if isinstance(held, Product) else held[batch, head]


@dataclass
class Recording:
    """What one forward pass has marked so far, in order."""

    activations: dict[str, Activation] = field(default_factory=dict)
    attention: dict[str, AttentionSite] = field(default_factory=dict)

    def tap(self, path: str, name: str, value: Tensor | Product, stream: str, feature: str, formula: str) -> None:
        full = f"{path}.{name}" if path else name
        value = value.detach() if isinstance(value, Tensor) else value
        self.activations[full] = Activation(full, value, ("batch", stream, feature), formula)

    def site(
        self,
        module: MultiHeadAttention | Alignment,
        x: Tensor,
        memory: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        out: Tensor,
        mask: Mask,
    ) -> None:
        projections = module.projections
        x, memory, q, k, v, out = (t.detach() for t in (x, memory, q, k, v, out))
        if projections and max(q.numel(), k.numel()) > LARGEST_KEPT and k.shape[2] == memory.shape[1]:   # none from a cache
            causes = (("W_Q", x), ("W_K", memory), ("W_V", memory))
            q, k, v = (Product(cause, *projections[name], module.n_heads) for name, cause in causes)
        self.attention[module.path] = AttentionSite(
            module.path, module.kind, x, memory, q, k, v, out, mask, module.similarity.now(), projections
        )


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


def tap(path: str, name: str, value: Tensor | Product, stream: str, feature: str, formula: str) -> None:
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
    """One batch row of a recording, on the CPU in float32, with the tokens of each stream ("source", "target") on its axes;
    what stands in the batch behind the last of these tokens is cut off.

    The batch axis stays, of size 1."""
    length = {stream: len(names) for stream, names in tokens.items()}

    def still(t: Tensor | Product, stream: str, axis: int = 1) -> Tensor | Product:
        if isinstance(t, Product):
            return t.moved(lambda x: still(x, stream))
        mine = t if t.shape[0] == 1 else t[row : row + 1]
        mine = mine if mine.shape[axis] == length[stream] else mine.narrow(axis, 0, length[stream])
        return mine.to("cpu", torch.float32)

    def site(s: AttentionSite) -> AttentionSite:
        query, key = STREAMS[s.kind]
        return replace(
            s,
            x=still(s.x, query), memory=still(s.memory, key), out=still(s.out, query, 2),
            q=still(s.kept("q"), query, 2), k=still(s.kept("k"), key, 2), v=still(s.kept("v"), key, 2),
            mask=mask_rows[id(s.mask)],
            similarity=s.similarity.moved(lambda t: t.to("cpu", torch.float32)),
            projections={n: tuple(t.to("cpu", torch.float32) for t in wb) for n, wb in s.projections.items()},
            query_tokens=tokens[query],
            key_tokens=tokens[key],
        )

    activations = {
        name: Activation(name, still(a.kept, a.axes[1]), a.axes, a.formula, tokens[a.axes[1]])
        for name, a in recording.activations.items()
    }
    mask_rows = {       # layers share theirs
        id(s.mask): s.mask.row(row, *(length[stream] for stream in STREAMS[s.kind])) for s in recording.attention.values()
    }
    return activations, {name: site(s) for name, s in recording.attention.items()}
