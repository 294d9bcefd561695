"""A finished run: what was asked, what was changed, and every tensor recorded on the way, with the tokens on its axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from models.layers.masks import Mask
from models.trace.activation import Activation
from models.trace.deferred import Product
from models.trace.edits.base import Edits
from models.trace.edits.selection import of_row
from models.trace.outputs import NextToken, Output
from models.trace.recorder import Recording
from models.trace.site import AttentionSite

if TYPE_CHECKING:
    from models.tokenizers.base import Encoding, Tokenizer


@dataclass(frozen=True)
class RunModel:
    """Which model a run was of."""

    name: str
    architecture: str
    fingerprint: str
    training: dict[str, Any]  # its training record
    tokenizer: Tokenizer | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Trace:
    """A finished run: every recorded tensor on the CPU in float32, with the tokens on each axis. Read-only by convention.

    `teacher_forced` says whether the stream that the model writes was given; `output` is the text the model wrote, or under
    teacher forcing the text of its first choice after each position; of a model that does not write its answer as a text.
    `unrecorded` names each attention of the run that could not be recorded, with the reason."""

    model: RunModel
    fields: dict[
        str, str | Sequence[int] | None
    ]  # what was asked, by the name of the model's field
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
        """The next-token distributions. Raises KeyError for a model without."""
        return self.outputs["next token"]

    def axes(self, site: AttentionSite) -> tuple[Encoding, Encoding]:
        """The encodings on a site's query axis and on its key axis."""
        return self.streams[site.query_stream], self.streams[site.key_stream]


def in_float32(site: AttentionSite) -> AttentionSite:
    """A site of a run that is under way, as it is shown: its numbers in float32, whatever the model ran in; where they are and all
    their rows stay."""

    def convert(t: Tensor | Product) -> Tensor | Product:
        return t.map_tensors(convert) if isinstance(t, Product) else t.float()

    def shared(t: Tensor | None) -> Tensor | None:
        return None if t is None else t.float()

    if site.dtype == torch.float32:
        return site
    return replace(
        site,
        x=convert(site.x),
        memory=convert(site.memory),
        out=convert(site.out),
        given_weights=shared(site.given_weights),
        q=convert(site.deferred("q")),
        k=convert(site.deferred("k")),
        v=convert(site.deferred("v")),
        similarity=site.similarity.map_tensors(shared),
        projections={n: tuple(map(shared, wb)) for n, wb in site.projections.items()},
        terms=tuple(term.map_tensors(lambda t, axis: convert(t), shared) for term in site.terms),
    )


@dataclass(frozen=True)
class _BatchRow:
    """One row of a recorded batch, on the CPU in float32, as long as its tokens in each stream are."""

    index: int
    tokens: dict[str, tuple[str, ...]]

    def per_token(self, t: Tensor | Product, stream: str, axis: int = 1) -> Tensor | Product:
        """Of a tensor with the stream's tokens along this axis."""
        if isinstance(t, Product):
            return t.map_tensors(lambda x: self.per_token(x, stream))
        n, row = len(self.tokens[stream]), t if t.shape[0] == 1 else t[self.index : self.index + 1]
        return (row if row.shape[axis] == n else row.narrow(axis, 0, n)).to("cpu", torch.float32)

    @staticmethod
    def shared(t: Tensor | None) -> Tensor | None:
        """Of a tensor that is the same for every row."""
        return None if t is None else t.to("cpu", torch.float32)

    def mask(self, site: AttentionSite) -> Mask:
        return site.mask.row(
            self.index, len(self.tokens[site.query_stream]), len(self.tokens[site.key_stream])
        )

    def site(self, s: AttentionSite, mask: Mask) -> AttentionSite:
        query, key, per_token = s.query_stream, s.key_stream, self.per_token
        return replace(
            s,
            x=per_token(s.x, query),
            memory=per_token(s.memory, key),
            out=per_token(s.out, query, 2),
            q=per_token(s.deferred("q"), query, 2),
            k=per_token(s.deferred("k"), key, 2),
            v=per_token(s.deferred("v"), key, 2),
            mask=mask,
            similarity=s.similarity.map_tensors(self.shared),
            projections={n: tuple(map(self.shared, wb)) for n, wb in s.projections.items()},
            terms=tuple(
                term.map_tensors(lambda t, axis: per_token(t, query, axis), self.shared)
                for term in s.terms
            ),
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
    """One batch row of a recording, on the CPU in float32, with the tokens of each stream on its axes; what stands in the
    batch behind the last of these tokens is cut off.

    The batch axis stays, of size 1."""
    batch_row = _BatchRow(row, tokens)
    activations = {
        name: Activation(
            name, batch_row.per_token(a.deferred, a.axes[1]), a.axes, a.formula, tokens[a.axes[1]]
        )
        for name, a in recording.activations.items()
    }
    masks = {
        id(s.mask): batch_row.mask(s) for s in recording.attention.values()
    }  # layers share theirs
    return activations, {
        name: batch_row.site(s, masks[id(s.mask)]) for name, s in recording.attention.items()
    }
