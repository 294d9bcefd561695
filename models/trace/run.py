"""A finished run: its input, its edits, and every recorded tensor with the tokens on its axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from models.layers.masks import Mask
from models.trace.activation import Activation
from models.trace.edits.base import Edits
from models.trace.edits.selection import of_row
from models.trace.lazy import LazyLinear, LazyTensor, map_lazy
from models.trace.outputs import NextToken, Output
from models.trace.recorder import Recording
from models.trace.site import AttentionSite, Projection

if TYPE_CHECKING:
    from models.tokenizers.base import Encoding, Tokenizer


@dataclass(frozen=True)
class RunModel:
    """The model that a run was made with."""

    name: str
    architecture: str
    fingerprint: str
    training: dict[str, Any]  # its training record
    tokenizer: Tokenizer | None = field(default=None, compare=False, repr=False)
    positions_removed: bool = False  # it runs without the position vectors that it learned with


@dataclass(frozen=True)
class Trace:
    """A finished run, all its tensors on the CPU in float32. Read-only by convention.

    `teacher_forced` is True if the stream that the model writes was given. `output` is the text
    that the model wrote; under teacher forcing or edits its first choice after each position; for a
    model that does not generate text, its answer in words. `unrecorded` gives the reason for each
    attention that was not recorded.
    """

    model: RunModel
    fields: dict[str, str | Sequence[int] | None]  # inputs, by the name of the model's field
    streams: dict[str, Encoding]
    outputs: dict[str, Output]
    output: str
    teacher_forced: bool
    activations: dict[str, Activation]
    attention: dict[str, AttentionSite]
    edits: Edits = ()
    unrecorded: dict[str, str] = field(default_factory=dict)

    @property
    def next_token(self) -> NextToken:
        """The next-token distributions.

        Raises:
            KeyError: the model does not predict next tokens.
        """
        return cast(NextToken, self.outputs["next token"])

    def axes(self, site: AttentionSite) -> tuple[Encoding, Encoding]:
        """Return the encodings on a site's query axis and on its key axis."""
        return self.streams[site.query_stream], self.streams[site.key_stream]


def in_float32(site: AttentionSite) -> AttentionSite:
    """Return a site of an unfinished run in float32, on its device and with all its batch rows."""
    if site.dtype == torch.float32:
        return site
    weights = site.given_weights
    return replace(
        site,
        x=site.x.float(),
        memory=site.memory.float(),
        out=site.out.float(),
        given_weights=None if weights is None else weights.float(),
        lazy_q=map_lazy(site.lazy_q, Tensor.float),
        lazy_k=map_lazy(site.lazy_k, Tensor.float),
        lazy_v=map_lazy(site.lazy_v, Tensor.float),
        similarity=site.similarity.map_tensors(Tensor.float),
        projections=_map_projections(site.projections, Tensor.float),
        W_O=site.W_O and _map_projection(site.W_O, Tensor.float),
        terms=tuple(
            term.map_tensors(lambda t, axis: t.float(), Tensor.float) for term in site.terms
        ),
    )


def _map_projections(
    projections: Mapping[str, Projection], transform: Callable[[Tensor], Tensor]
) -> dict[str, Projection]:
    return {name: _map_projection(one, transform) for name, one in projections.items()}


def _map_projection(projection: Projection, transform: Callable[[Tensor], Tensor]) -> Projection:
    weight, bias = projection
    return transform(weight), None if bias is None else transform(bias)


@dataclass(frozen=True)
class _BatchRow:
    """One row of a recorded batch, to be cut to the length of its streams and moved to the CPU."""

    index: int
    tokens: dict[str, tuple[str, ...]]

    def per_token(self, t: Tensor, stream: str, axis: int = 1) -> Tensor:
        """Take this row of a tensor with the stream's tokens along `axis`."""
        n, row = len(self.tokens[stream]), t if t.shape[0] == 1 else t[self.index : self.index + 1]
        return (row if row.shape[axis] == n else row.narrow(axis, 0, n)).to("cpu", torch.float32)

    def lazy_per_token(self, t: LazyTensor, stream: str, axis: int = 1) -> LazyTensor:
        """Take this row; for a lazy tensor, that of its input (batch, token, feature)."""
        if isinstance(t, LazyLinear):
            return t.map_tensors(lambda x: self.per_token(x, stream))
        return self.per_token(t, stream, axis)

    @staticmethod
    def shared(t: Tensor) -> Tensor:
        """Move a tensor that all rows share."""
        return t.to("cpu", torch.float32)

    def mask(self, site: AttentionSite) -> Mask:
        return site.mask.row(
            self.index, len(self.tokens[site.query_stream]), len(self.tokens[site.key_stream])
        )

    def site(self, s: AttentionSite, mask: Mask) -> AttentionSite:
        query, key, per_token = s.query_stream, s.key_stream, self.per_token
        lazy = self.lazy_per_token
        terms = [
            term.map_tensors(lambda t, axis: per_token(t, query, axis), self.shared)
            for term in s.terms
        ]
        return replace(
            s,
            x=per_token(s.x, query),
            memory=per_token(s.memory, key),
            out=per_token(s.out, query, 2),
            lazy_q=lazy(s.lazy_q, query, 2),
            lazy_k=lazy(s.lazy_k, key, 2),
            lazy_v=lazy(s.lazy_v, key, 2),
            mask=mask,
            similarity=s.similarity.map_tensors(self.shared),
            projections=_map_projections(s.projections, self.shared),
            W_O=s.W_O and _map_projection(s.W_O, self.shared),
            # one of a batch may be zero in this row
            terms=tuple(term for term in terms if not term.is_zero),
            given_weights=None
            if s.given_weights is None
            else per_token(s.given_weights, query, 2)[..., : len(self.tokens[key])],
            edits=of_row(s.edits, self.index),
            query_tokens=self.tokens[query],
            key_tokens=self.tokens[key],
        )


def finish(
    recording: Recording, tokens: dict[str, tuple[str, ...]], row: int = 0
) -> tuple[dict[str, Activation], dict[str, AttentionSite]]:
    """Return one row of a recorded batch, on the CPU in float32, with the tokens on its axes.

    Tensors are cut to the length of the tokens of their stream. The batch axis stays, of size 1.
    """
    batch_row = _BatchRow(row, tokens)
    activations = {
        name: Activation(
            name,
            batch_row.lazy_per_token(a.lazy_value, a.axes[1]),
            a.axes,
            a.formula,
            tokens[a.axes[1]],
        )
        for name, a in recording.activations.items()
    }
    # several layers share one mask
    masks = {id(s.mask): batch_row.mask(s) for s in recording.attention.values()}
    return activations, {
        name: batch_row.site(s, masks[id(s.mask)]) for name, s in recording.attention.items()
    }
