"""A module of the user's own that reads two texts, such as an encoder-decoder: each text is a stream, and each attention is of the
streams that its queries and keys come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from models.architectures.base import Answers, Field
from models.hub.config import HubConfig
from models.hub.model import NUMBERS
from models.hub.own_model import Call, OwnModel
from models.hub.own_tokenizer import TextsTokenizer
from models.hub.places import Places
from models.hub.provenance import Texts
from models.layers.masks import SiteKind
from models.tokenizers.base import Encoding, Tokenizer
from models.trace.outputs import Numbers, Output

FIRST, SECOND = "first text", "second text"


@dataclass(frozen=True)
class Given:
    """The inputs that one text gives a module, batch axis first, and its number of tokens."""

    tensors: tuple[Tensor, ...]
    n_tokens: int


class OwnTexts(OwnModel):
    """A module that reads two texts, of which the second is taken for the decoder's. It is shown and does not write."""

    streams = (FIRST, SECOND)
    kinds = (
        SiteKind("encoder_self", "encoder", "self", FIRST, FIRST),
        SiteKind("decoder_self", "decoder", "self", SECOND, SECOND),
        SiteKind("cross", "decoder", "cross", SECOND, FIRST),
        SiteKind("encoder_cross", "encoder", "cross", FIRST, SECOND),
    )

    def __init__(
        self, module: nn.Module, config: HubConfig, names: Sequence[str], call: Call
    ) -> None:
        super().__init__(module, config, names[0], call)
        self.fields = tuple(
            Field(name, stream) for name, stream in zip(names, self.streams, strict=True)
        )

    def completed(
        self, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Encoding]:
        """The rows that the owner's function makes of both texts together."""
        if not isinstance(tokenizer, TextsTokenizer):
            return dict(streams)
        rows = tokenizer.rows([streams[name].text for name in self.streams])
        return dict(zip(self.streams, rows, strict=True))

    def inputs(self, rows: Sequence[Mapping[str, Encoding]]) -> tuple[Given, ...]:
        """What each text gives the module. Raises ValueError for several rows that cannot be one batch."""
        return tuple(self._given([row[name] for row in rows]) for name in self.streams)

    def _given(self, encodings: Sequence[Encoding]) -> Given:
        tensors = self.own_tensors(encodings)
        if tensors:
            return Given(tensors, len(encodings[0].ids))
        ids = self.padded([e.ids for e in encodings], self.config.pad_id)
        return Given((ids,), ids.shape[1])

    def forward(self, first: Given, second: Given) -> Answers:
        """Return the first tensor of the module's output, or that of its input where there is none."""
        given = dict(zip(self.streams, (first, second), strict=True))
        lengths = {name: each.n_tokens for name, each in given.items()}
        tensors = {name: each.tensors for name, each in given.items()}
        places = Places(
            lambda frame: self.kinds[1],
            second.n_tokens,
            n_key=lengths,
            provenance=Texts(tensors, self.kinds, lengths),
        )
        found = self.watched_call(places, (*first.tensors, *second.tensors))
        return {NUMBERS: second.tensors[0] if found is None else found}

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        return {NUMBERS: Numbers(SECOND, tuple(answers[NUMBERS].shape))}
