"""A finished run: what was asked, what was changed, and every tensor recorded on the way, with the tokens on its axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from models.trace.activation import Activation
from models.trace.deferred import Product
from models.trace.edits import Edits
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
    training: dict[str, Any]     # its training record
    tokenizer: Tokenizer | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Trace:
    """A finished run: every recorded tensor on the CPU in float32, with the tokens on each axis. Read-only by convention.

    `teacher_forced` says whether the stream that the model writes was given; `output` is the text the model wrote, or under
    teacher forcing the text of its first choice after each position; of a model that does not write its answer as a text."""

    model: RunModel
    fields: dict[str, str | Sequence[int] | None]     # what was asked, by the name of the model's field
    streams: dict[str, Encoding]
    outputs: dict[str, Output]
    output: str
    teacher_forced: bool
    activations: dict[str, Activation]
    attention: dict[str, AttentionSite]
    edits: Edits = field(default_factory=Edits)

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

    def still(t: Tensor | Product) -> Tensor | Product:
        return t.moved(still) if isinstance(t, Product) else t.float()

    def numbers(t: Tensor | None) -> Tensor | None:
        return None if t is None else t.float()

    if site.dtype == torch.float32:
        return site
    return replace(
        site, x=still(site.x), memory=still(site.memory), out=still(site.out), given=numbers(site.given),
        q=still(site.deferred("q")), k=still(site.deferred("k")), v=still(site.deferred("v")),
        similarity=site.similarity.moved(numbers),
        projections={n: tuple(map(numbers, wb)) for n, wb in site.projections.items()},
        terms=tuple(term.moved(lambda t, axis: still(t), numbers) for term in site.terms),
    )


def finish(
    recording: Recording, tokens: dict[str, tuple[str, ...]], row: int = 0
) -> tuple[dict[str, Activation], dict[str, AttentionSite]]:
    """One batch row of a recording, on the CPU in float32, with the tokens of each stream on its axes; what stands in the
    batch behind the last of these tokens is cut off.

    The batch axis stays, of size 1."""
    length = {stream: len(names) for stream, names in tokens.items()}

    def still(t: Tensor | Product, stream: str, axis: int = 1) -> Tensor | Product:
        if isinstance(t, Product):
            return t.moved(lambda x: still(x, stream))
        mine = t if t.shape[0] == 1 else t[row : row + 1]
        mine = mine if mine.shape[axis] == length[stream] else mine.narrow(axis, 0, length[stream])
        return mine.to("cpu", torch.float32)

    def numbers(t: Tensor | None) -> Tensor | None:
        return None if t is None else t.to("cpu", torch.float32)

    def site(s: AttentionSite) -> AttentionSite:
        query, key = s.query_stream, s.key_stream
        return replace(
            s,
            x=still(s.x, query), memory=still(s.memory, key), out=still(s.out, query, 2),
            q=still(s.deferred("q"), query, 2), k=still(s.deferred("k"), key, 2), v=still(s.deferred("v"), key, 2),
            mask=mask_rows[id(s.mask)],
            similarity=s.similarity.moved(numbers),
            projections={n: tuple(map(numbers, wb)) for n, wb in s.projections.items()},
            terms=tuple(term.moved(lambda t, axis: still(t, query, axis), numbers) for term in s.terms),
            given=None if s.given is None else still(s.given, query, 2)[..., : length[key]],
            query_tokens=tokens[query],
            key_tokens=tokens[key],
        )

    activations = {
        name: Activation(name, still(a.deferred, a.axes[1]), a.axes, a.formula, tokens[a.axes[1]])
        for name, a in recording.activations.items()
    }
    mask_rows = {       # layers share theirs
        id(s.mask): s.mask.row(row, length[s.query_stream], length[s.key_stream]) for s in recording.attention.values()
    }
    return activations, {name: site(s) for name, s in recording.attention.items()}
