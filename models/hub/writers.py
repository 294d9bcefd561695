"""Models with a decoder: those that generate with transformers' cache, and those that read."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from models.architectures.base import NEXT_TOKEN, Answers, Architecture, Field
from models.architectures.encoder_decoder import CROSS, DECODER_SELF, ENCODER_SELF
from models.hub.labels import label_output
from models.hub.model import CAUSAL_SELF, NUMBERS_OUTPUT, HubModel
from models.hub.readers import (
    CLASSES_OUTPUT,
    ONE_TEXT_FIELD,
    SECOND_TEXT,
    Classifier,
    OutputHead,
)
from models.hub.recording.context import ModuleCall, PassContext
from models.hub.recording.projections import same_memory
from models.hub.tokenizer import CLOSING, OPENING
from models.layers.cache import Cache
from models.layers.masks import Mask, Masks, SiteKind, padding
from models.tokenizers.base import Encoding, Tokenizer
from models.trace.outputs import Numbers, Output

SHIFTED = "decoder input"


class HubEncoderDecoder(HubModel):
    """An encoder and a decoder.

    `kinds` are encoder self-attention, decoder self-attention and cross-attention, in this order.
    """

    @property
    def reader(self) -> nn.Module:
        return self.module.get_encoder()

    def encode(
        self, inputs: Int[Tensor, "batch n"], masks: Masks
    ) -> Float[Tensor, "batch n d_model"]:
        kind, n = self.kinds[0], inputs.shape[1]
        padding_masks = {kind.key_stream: inputs != self.config.pad_id}
        context = PassContext(
            lambda frame: kind,
            n,
            0,
            {kind.key_stream: n},
            padding_masks,
            self.groups,
            n_rows=len(inputs),
            token_table=self.token_table,
        )
        output = self._ask(self.reader, context, {"attentions": kind}, **self.row(inputs))
        return output.last_hidden_state

    def ask_decoder(
        self,
        row: Int[Tensor, "batch m"],
        memory: Float[Tensor, "batch n d_model"],
        is_token: Bool[Tensor, "batch n"],
        start: int = 0,
        **inputs: Any,
    ) -> Any:
        """Return the module's output for a finished encoding; `is_token` is False at padding."""
        from transformers.modeling_outputs import MoEModelOutputWithPastAndCrossAttentions as Memory

        _, self_attention, cross = self.kinds
        encoding = Memory(last_hidden_state=memory)  # with the fields of every encoder's output
        encoding.attention_mask = None  # except Moonshine's, which passes its mask on
        return self._ask(
            self.module,
            self._pass_context(row, memory, is_token, start),
            {"decoder_attentions": self_attention, "cross_attentions": cross},
            encoder_outputs=encoding,
            decoder_input_ids=row.masked_fill(row == self.config.pad_id, self.config.fill_id),
            **inputs,
            **({} if bool(is_token.all()) else {"attention_mask": is_token.long()}),
        )

    def _pass_context(
        self, row: Tensor, memory: Tensor, is_token: Tensor, start: int
    ) -> PassContext:
        _, self_attention, cross = self.kinds
        encoding = [memory]

        def kind(frame: ModuleCall) -> SiteKind:
            """Return cross-attention for a module that was given the encoder's output."""
            is_given = any(same_memory(t, read) for t in frame.inputs for read in encoding)
            return cross if is_given else self_attention

        read, written = self.streams
        padding = {} if start else {written: row != self.config.pad_id}
        return PassContext(
            kind,
            row.shape[1],
            start,
            {read: memory.shape[1], written: start + row.shape[1]},
            {read: is_token, **padding},
            self.groups,
            n_rows=len(row),
            token_table=self.token_table,
            memory=encoding,
        )


class EncoderDecoderReader(HubEncoderDecoder):
    """A model of vectors, whose decoder reads the encoder's text shifted by one token."""

    streams = ("text", SHIFTED)
    kinds = (
        SiteKind("encoder_self", "encoder", "self", "text", "text"),
        SiteKind("decoder_self", "decoder", "self", SHIFTED, SHIFTED),
        SiteKind("cross", "decoder", "cross", SHIFTED, "text"),
    )
    begins_with_last = False  # the decoder's row, instead of the start token (probe.choose_shift)

    def completed(
        self, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Encoding]:
        """Return the rows and the decoder's: its first token, then all tokens but the last."""
        row = streams["text"]
        ids = (row.ids[-1] if self.begins_with_last else self.config.start_id, *row.ids[:-1])
        offsets, texts = (None, *row.offsets[:-1]), (*row.segments[:1], *row.segments[:-1])
        special = row.special.union(tokenizer.tokens(ids[:1]))
        shifted = Encoding(row.text, ids, tokenizer.tokens(ids), offsets, texts, special=special)
        return {**streams, SHIFTED: shifted}

    def forward(self, text: Int[Tensor, "batch n"], shifted: Int[Tensor, "batch n"]) -> Answers:
        ids, is_token = self.row(text)["input_ids"], text != self.config.pad_id
        output = self.ask_decoder(
            shifted, self.encode(text, {}), is_token, input_ids=ids, use_cache=False
        )
        return self.answers_of(output)

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        vectors = answers[NUMBERS_OUTPUT][: len(streams[SHIFTED].ids)]
        return {NUMBERS_OUTPUT: Numbers(SHIFTED, tuple(vectors.shape))}


class EncoderDecoderClassifier(EncoderDecoderReader, Classifier):
    """A class of the text, read from the decoder's state at the end token."""

    fields = (replace(ONE_TEXT_FIELD, closing="end"), SECOND_TEXT)

    def repeated(self, ids: Int[Tensor, "batch n"]) -> tuple[Tensor, ...]:
        """Return rows that end with the end token, from whose state the class is read."""
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
        ids, logits = streams["text"].ids, answers[CLASSES_OUTPUT]
        end = max((i for i, token in enumerate(ids) if token == self.config.end_id), default=None)
        return {CLASSES_OUTPUT: label_output(self.module, SHIFTED, end, self.names, logits)}


def is_encoder_decoder(module: nn.Module) -> bool:
    """Return True if a module takes a row for a decoder besides its input."""
    return "decoder_input_ids" in inspect.signature(module.forward).parameters


_PATH = "library"


class LibraryCache:
    """The cache of one decoding run, in transformers' form."""

    def __init__(self, past: Any) -> None:
        self.past = past

    def cut(self, n: int) -> None:
        """Forget all positions of the generated stream but the first n."""
        self.past.crop(-(self.past.get_seq_length() - n))

    def reorder(self, rows: Int[Tensor, " batch"]) -> None:
        """Keep these batch rows, in this order."""
        self.past.reorder_cache(rows)


def of_library(cache: Cache, config: Any, crosses: bool = False) -> LibraryCache:
    """Return the library's cache inside ours, created at the first call.

    If the decoder `crosses` to a source, it holds the keys of both attentions.
    """
    return cache.foreign(_PATH, lambda: LibraryCache(_library_cache(config, crosses)))


def _library_cache(config: Any, crosses: bool) -> Any:
    from transformers import DynamicCache, EncoderDecoderCache

    past = DynamicCache(config=config)
    past.layers = [_without_window(layer) for layer in past.layers]
    return EncoderDecoderCache(past, DynamicCache()) if crosses else past


def _without_window(layer: Any) -> Any:
    """Return a cache layer that stores all keys: masks hide those outside a window."""
    from transformers import cache_utils

    if isinstance(layer, cache_utils.LinearAttentionAndSlidingWindowAttentionLayer):
        return cache_utils.LinearAttentionAndFullAttentionLayer(layer.number_of_states)
    return (
        cache_utils.DynamicLayer()
        if isinstance(layer, cache_utils.DynamicSlidingWindowLayer)
        else layer
    )


class CausalLM(HubModel):
    """A language model, which predicts each token from those before it."""

    fields = (Field("text", "text", before=OPENING), Field("continuation", "text", optional=True))
    writes = "text"
    kinds = (CAUSAL_SELF,)
    answer_description = "the next token; it continues a text"
    uncounted: int | None = None  # a token that takes no position (probe_cache.py)
    head: OutputHead | None = None  # if more than a matrix makes the logits (confirm.py)

    def forward(
        self, text: Int[Tensor, "batch n"], masks: Masks | None = None
    ) -> Float[Tensor, "batch n vocab"]:
        return self.decode(text, None, {})

    def opening(self, inputs: Int[Tensor, "batch n"]) -> Int[Tensor, "batch n"]:
        return inputs

    def written_masks(
        self, inputs: Int[Tensor, "batch n"], row: Int[Tensor, "batch m"], start: int = 0
    ) -> Masks:
        return {}

    def encode(self, inputs: Int[Tensor, "batch n"], masks: Masks) -> None:
        return

    def decode(
        self,
        row: Int[Tensor, "batch m"],
        memory: None,
        masks: Masks,
        cache: Cache | None = None,
        start: int = 0,
    ) -> Float[Tensor, "batch m vocab"]:
        past = (
            {} if cache is None else {"past_key_values": of_library(cache, self.module.config).past}
        )
        inputs = self.row(row)
        if start:  # a mask would have to cover the cache; padding ends a finished row
            inputs.pop("attention_mask", None)
        return self.ask(
            self.pass_context(row, start),
            **inputs,
            **self._positions(row, start),
            **past,
            use_cache=cache is not None,
        ).logits

    def _positions(self, row: Int[Tensor, "batch m"], start: int) -> dict[str, Tensor]:
        """Return a row's positions as single cached steps number them, if the module does not.

        The uncounted token has its own number; every other follows the counted ones before it.
        """
        if self.uncounted is None:
            return {}
        first = self.uncounted + 1 + start
        numbers = torch.arange(first, first + row.shape[1], device=row.device).expand_as(row)
        return {"position_ids": numbers.masked_fill(row == self.uncounted, self.uncounted)}

    def readout(
        self, x: Float[Tensor, "*places d_model"], output: str = NEXT_TOKEN
    ) -> Float[Tensor, "*places vocab"]:
        if self.head is None or output != NEXT_TOKEN:
            return super().readout(x, output)
        return self.logit_change(self.head(self.last_norm(x)))

    def max_new_tokens(self, n_given: int) -> int:
        return min(self.config.n_ctx - n_given, 50)

    outputs, answer = Architecture.outputs, Architecture.answer


class EncoderDecoderLM(HubEncoderDecoder):
    """An encoder-decoder that generates a target from a source."""

    fields = (
        Field("source", "source", before=OPENING, after=CLOSING),
        Field("target", "target", optional=True, before="start"),
    )
    streams = ("source", "target")
    writes = "target"
    kinds = (ENCODER_SELF, DECODER_SELF, CROSS)
    answer_description = "another text, token by token"

    def completed(
        self, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Encoding]:
        """Return the streams, with the forced first token added to a typed target.

        It is the target language (mBART, NLLB) or <s> (BART).
        """
        row, first = streams.get("target"), self.config.first_id
        if row is None or first < 0 or row.ids[1:2] == (first,):
            return dict(streams)
        return {**streams, "target": after_start(row, [first], tokenizer)}

    def forward(
        self, source: Int[Tensor, "batch n"], target: Int[Tensor, "batch m"]
    ) -> Float[Tensor, "batch m vocab"]:
        masks = self.written_masks(source, target)
        return self.decode(target, self.encode(source, masks), masks)

    def opening(self, inputs: Int[Tensor, "batch n"]) -> Int[Tensor, "batch 1"]:
        return torch.full((len(inputs), 1), self.config.start_id, device=inputs.device)

    def written_masks(
        self, inputs: Int[Tensor, "batch n"], row: Int[Tensor, "batch m"], start: int = 0
    ) -> Masks:
        """Return the source's padding; the rest of the mask is the model's own."""
        return {CROSS.name: Mask([padding(inputs, self.config.pad_id)], start)}

    def decode(
        self,
        row: Int[Tensor, "batch m"],
        memory: Float[Tensor, "batch n d_model"],
        masks: Masks,
        cache: Cache | None = None,
        start: int = 0,
    ) -> Float[Tensor, "batch m vocab"]:
        is_token = _source_tokens(masks)
        past = (
            {}
            if cache is None
            else {"past_key_values": of_library(cache, self.module.config, crosses=True).past}
        )
        unread = is_token.long()  # FSMT makes its look-ahead mask only if it is given ids
        return self.ask_decoder(
            row, memory, is_token, start, input_ids=unread, **past, use_cache=cache is not None
        ).logits

    def max_new_tokens(self, n_given: int) -> int:
        return min(2 * n_given + 20, self.stream_limit(self.writes) - 1)

    outputs, answer = Architecture.outputs, Architecture.answer


def after_start(row: Encoding, ids: Sequence[int], tokenizer: Tokenizer) -> Encoding:
    """Return a typed row with these tokens after its start token."""
    return replace(
        row,
        ids=(*row.ids[:1], *ids, *row.ids[1:]),
        tokens=(*row.tokens[:1], *tokenizer.tokens(ids), *row.tokens[1:]),
        offsets=(*row.offsets[:1], *(None for _ in ids), *row.offsets[1:]),
    )


def _source_tokens(masks: Masks) -> Bool[Tensor, "batch n"]:
    """Return True at the source's tokens, False at its padding."""
    return masks[CROSS.name].layers[0].allowed[:, 0, 0]
