"""Modules of the user's own that write, or that read two texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from models.architectures.base import Answers, Architecture, Field
from models.hub.model import NUMBERS_OUTPUT
from models.hub.recording.context import PassContext, TextStreams
from models.hub.sizes import HubConfig
from models.hub.user_module.model import CallModule, UserModel
from models.hub.user_module.token_rows import (
    ModuleInputs,
)
from models.hub.user_module.tokenizer import (
    TARGET_START,
    PendingText,
    TextsTokenizer,
    UserEncoding,
)
from models.hub.writers import CausalLM, EncoderDecoderLM
from models.layers.cache import Cache
from models.layers.masks import Masks, SiteKind
from models.tokenizers.base import Encoding, Tokenizer
from models.trace.outputs import Numbers, Output

_TITLE = "Decoder self-attention"  # only a run shows whether there is a mask


class UserWriter(UserModel):
    """A module that predicts the next token at each position."""

    writes = "text"
    kinds = (SiteKind("self", "decoder", "self", "text", "text", _TITLE),)
    answer_description = CausalLM.answer_description
    opening, written_masks, encode, max_new_tokens = (
        CausalLM.opening,
        CausalLM.written_masks,
        CausalLM.encode,
        CausalLM.max_new_tokens,
    )
    outputs, answer = Architecture.outputs, Architecture.answer
    can_cache = False

    def forward(
        self, text: Int[Tensor, "batch n"], *tensors: Tensor
    ) -> Float[Tensor, "batch n vocab"]:
        return self.checked_logits(self.watched_output(text, tensors), text)

    def decode(
        self,
        row: Int[Tensor, "batch m"],
        memory: None,
        masks: Masks,
        cache: Cache | None = None,
        start: int = 0,
    ) -> Float[Tensor, "batch m vocab"]:
        if len(row) == 1 or self.keeps_rows_apart((row,)):
            return self.forward(row)
        return torch.cat([self.forward(one) for one in row.split(1)])


FIRST_STREAM, SECOND_STREAM = "first text", "second text"


class UserTexts(UserModel):
    """A module that reads two texts; the second is taken to be the decoder's.

    Its attention is shown; it does not generate text.
    """

    streams = (FIRST_STREAM, SECOND_STREAM)
    kinds = (
        SiteKind("encoder_self", "encoder", "self", FIRST_STREAM, FIRST_STREAM),
        SiteKind("decoder_self", "decoder", "self", SECOND_STREAM, SECOND_STREAM, _TITLE),
        SiteKind("cross", "decoder", "cross", SECOND_STREAM, FIRST_STREAM),
        SiteKind("encoder_cross", "encoder", "cross", FIRST_STREAM, SECOND_STREAM),
    )

    def __init__(
        self, module: nn.Module, config: HubConfig, names: Sequence[str], call: CallModule
    ) -> None:
        super().__init__(module, config, names[0], call)
        self.fields = tuple(
            Field(name, stream) for name, stream in zip(names, self.streams, strict=True)
        )

    def completed(
        self, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Encoding]:
        """Return the rows that the owner's function makes from both texts together."""
        if not isinstance(tokenizer, TextsTokenizer):
            return dict(streams)
        rows = tokenizer.rows([streams[name].text for name in self.streams])
        return dict(zip(self.streams, rows, strict=True))

    def inputs(self, rows: Sequence[Mapping[str, Encoding]]) -> tuple[ModuleInputs, ...]:
        """Return the inputs that each text gives the module.

        Raises ValueError for several rows that cannot be one batch.
        """
        return tuple(self._input_of([row[name] for row in rows]) for name in self.streams)

    def _input_of(self, encodings: Sequence[Encoding]) -> ModuleInputs:
        tensors = self.own_tensors(encodings)
        if tensors:
            return ModuleInputs(tensors, len(encodings[0].ids))
        ids = self.padded([e.ids for e in encodings], self.config.pad_id)
        return ModuleInputs((ids,), ids.shape[1], len(ids))

    def forward(self, first: ModuleInputs, second: ModuleInputs) -> Any:
        """Return the first tensor of the module's output, or that of its input if there is none."""
        output = self.watched_call((first, second))
        return {NUMBERS_OUTPUT: second.tensors[0] if output is None else output}

    def context_of(self, texts: Sequence[ModuleInputs]) -> PassContext:
        rows = dict(zip(self.streams, texts, strict=True))
        lengths = {name: each.n_tokens for name, each in rows.items()}
        tensors = {name: each.tensors for name, each in rows.items()}
        return PassContext(
            lambda frame: self.kinds[1],
            texts[1].n_tokens,
            n_key=lengths,
            n_rows=len(texts[1].tensors[0]),
            provenance=TextStreams(tensors, self.kinds, lengths),
        )

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        return {NUMBERS_OUTPUT: Numbers(SECOND_STREAM, tuple(answers[NUMBERS_OUTPUT].shape))}


class UserTranslator(UserTexts):
    """A module that reads a source and predicts the next token at each position of a target.

    At each step it is called with the whole source and the target so far.
    """

    writes = SECOND_STREAM
    answer_description = EncoderDecoderLM.answer_description
    max_new_tokens, answer = EncoderDecoderLM.max_new_tokens, Architecture.answer
    can_cache = False

    def __init__(
        self,
        module: nn.Module,
        config: HubConfig,
        names: Sequence[str],
        call: CallModule,
        start: Sequence[int],
    ) -> None:
        super().__init__(module, config, names, call)
        source, target = names
        self.fields = (
            Field(source, FIRST_STREAM),
            Field(target, SECOND_STREAM, optional=True, before=TARGET_START),
        )
        self._start = tuple(start)

    def completed(
        self, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Encoding]:
        """Return the rows of a run; a generated target keeps its tokens.

        Raises InputError for a row that is not of token ids.
        """
        rows = dict(streams)
        if isinstance(rows.get(SECOND_STREAM), PendingText):
            rows[SECOND_STREAM] = super().completed(streams, tokenizer)[SECOND_STREAM]
        if any(isinstance(row, UserEncoding) for row in rows.values()):
            raise self.refused("a module that writes must read token ids, not Inputs")
        return rows

    def opening(self, inputs: Int[Tensor, "batch n"]) -> Int[Tensor, "batch m"]:
        return torch.tensor([self._start] * len(inputs), device=inputs.device)

    def written_masks(
        self, inputs: Int[Tensor, "batch n"], row: Int[Tensor, "batch m"], start: int = 0
    ) -> Masks:
        return {}

    def encode(self, inputs: Int[Tensor, "batch n"], masks: Masks) -> Float[Tensor, "batch n 1"]:
        """Return the ids of the source, which the module encodes again in each call."""
        return inputs[..., None].double()

    def decode(
        self,
        row: Int[Tensor, "batch m"],
        memory: Float[Tensor, "batch n 1"],
        masks: Masks,
        cache: Cache | None = None,
        start: int = 0,
    ) -> Float[Tensor, "batch m vocab"]:
        source = memory[..., 0].long()
        if len(row) == 1 or self.keeps_rows_apart((source, row)):
            source_inputs = ModuleInputs((source,), source.shape[1], len(source))
            return self.forward(source_inputs, ModuleInputs((row,), row.shape[1], len(row)))
        pairs = zip(memory.split(1), row.split(1), strict=True)
        return torch.cat([self.decode(one, source, masks) for source, one in pairs])

    def forward(self, first: ModuleInputs, second: ModuleInputs) -> Float[Tensor, "batch m vocab"]:
        """Return the module's logits.

        Raises InputError if its answer is not one for each position of the target.
        """
        logits, (row,) = self.watched_call((first, second)), second.tensors
        return self.checked_logits(logits, row)

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        return Architecture.outputs(self, answers, streams, tokenizer)
