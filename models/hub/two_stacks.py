"""Models with an encoder and a decoder: the encoder's pass, and, of those that do not write, one pass in which both read the
same text."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from models.architectures.base import Answers, Field
from models.hub.model import NUMBERS, HubModel
from models.hub.places import Frame, Places
from models.hub.readers import CLASSES, Classifier
from models.hub.tokenizer import CLOSING, OPENING, SECOND_CLOSING, SECOND_OPENING
from models.layers.masks import Masks, SiteKind
from models.tokenizers.base import Encoding, Tokenizer
from models.trace.outputs import ClassProbabilities, Numbers, Output

SHIFTED = "decoder input"


class TwoStacks(HubModel):
    """An encoder and a decoder. `kinds` are encoder self-attention, decoder self-attention and cross-attention, in this order."""

    @property
    def reader(self) -> nn.Module:
        return self.module.get_encoder()

    def encode(
        self, given: Int[Tensor, "batch n"], masks: Masks
    ) -> Float[Tensor, "batch n d_model"]:
        own, n = self.kinds[0], given.shape[1]
        known = {own.key_stream: given != self.config.pad_id}
        places = Places(
            lambda frame: own, n, 0, {own.key_stream: n}, known, self.groups, self.token_table
        )
        output = self._ask(self.reader, places, {"attentions": own}, **self.row(given))
        return output.last_hidden_state

    def ask_decoder(
        self,
        row: Int[Tensor, "batch m"],
        memory: Float[Tensor, "batch n d_model"],
        known: Bool[Tensor, "batch n"],
        input_ids: Int[Tensor, "batch n"],
        start: int = 0,
        **inputs: Any,
    ) -> Any:
        """Return the module's output for a finished encoding; `known` is True at the encoded tokens that are not padding."""
        from transformers.modeling_outputs import MoEModelOutputWithPastAndCrossAttentions as Memory

        _, own, cross = self.kinds
        return self._ask(
            self.module,
            self._places(row, memory, known, start),
            {"decoder_attentions": own, "cross_attentions": cross},
            input_ids=input_ids,
            encoder_outputs=Memory(last_hidden_state=memory),  # has the fields of every encoder
            decoder_input_ids=row.masked_fill(row == self.config.pad_id, self.config.fill_id),
            **inputs,
            **({} if bool(known.all()) else {"attention_mask": known.long()}),
        )

    def _places(self, row: Tensor, memory: Tensor, known: Tensor, start: int) -> Places:
        _, own, cross = self.kinds

        def kind(frame: Frame) -> SiteKind:
            """A module that was given the encoder's output is cross-attention."""
            return cross if any(t is memory for t in frame.inputs) else own

        read, written = self.streams
        padding = {} if start else {written: row != self.config.pad_id}
        return Places(
            kind,
            row.shape[1],
            start,
            {read: memory.shape[1], written: start + row.shape[1]},
            {read: known, **padding},
            self.groups,
            self.token_table,
        )


class TwoStackReader(TwoStacks):
    """A model whose decoder reads the text that its encoder reads, moved on by one token; it makes vectors."""

    streams = ("text", SHIFTED)
    kinds = (
        SiteKind("encoder_self", "encoder", "self", "text", "text"),
        SiteKind("decoder_self", "decoder", "self", SHIFTED, SHIFTED),
        SiteKind("cross", "decoder", "cross", SHIFTED, "text"),
    )

    def completed(
        self, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Encoding]:
        """The decoder's row: the start token, then all tokens of the text but the last."""
        row = streams["text"]
        ids = (self.config.start_id, *row.ids[:-1])
        shifted = Encoding(row.text, ids, tokenizer.tokens(ids), (None, *row.offsets[:-1]))
        return {**streams, SHIFTED: shifted}

    def forward(self, text: Int[Tensor, "batch n"], shifted: Int[Tensor, "batch n"]) -> Answers:
        ids, known = self.row(text)["input_ids"], text != self.config.pad_id
        output = self.ask_decoder(shifted, self.encode(text, {}), known, ids, use_cache=False)
        return self.answers_of(output)

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        vectors = answers[NUMBERS][: len(streams[SHIFTED].ids)]
        return {NUMBERS: Numbers(SHIFTED, tuple(vectors.shape))}


class TwoStackClassifier(TwoStackReader, Classifier):
    """A class of the text, read from the decoder's state at the end token."""

    fields = (
        Field("text", "text", before=OPENING, after=CLOSING, closing="end"),
        Field("second_text", "text", optional=True, before=SECOND_OPENING, after=SECOND_CLOSING),
    )

    def repeated(self, ids: Int[Tensor, "batch n"]) -> tuple[Tensor, ...]:
        """Both rows end with the end token, from whose state the class is read."""
        ended = ids.clone()
        ended[:, -1] = max(0, self.config.end_id)
        return (ended, ended)

    answers_of, answer = Classifier.answers_of, Classifier.answer

    @property
    def read_stream(self) -> str:
        return SHIFTED if self.head else ""

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        last = len(streams[SHIFTED].ids) - 1
        return {CLASSES: ClassProbabilities(SHIFTED, last, self.names, answers[CLASSES])}


def is_two_stacks(module: nn.Module) -> bool:
    """Report whether a module takes a row for a decoder besides its input."""
    return "decoder_input_ids" in inspect.signature(module.forward).parameters
