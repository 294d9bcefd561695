"""A model that somebody else made, as an Architecture: what it is asked, what it answers, and where its attentions stand. Each
subclass is one thing that such models do; none knows a family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from models.architectures.base import POSITIONS, Answers, Architecture, Field
from models.architectures.encoder_decoder import CROSS, DECODER_SELF, ENCODER_SELF
from models.hub import given_weights
from models.hub.cache import of_library
from models.hub.config import HubConfig
from models.hub.recorder import Frame, Places, mark_modules, watching
from models.hub.taps import Taps
from models.hub.tokenizer import CLOSING, OPENING, SECOND_CLOSING, SECOND_OPENING
from models.layers.cache import Cache
from models.layers.masks import Mask, Masks, SiteKind, padding
from models.tokenizers.base import Encoding, Tokenizer
from models.trace.outputs import ClassProbabilities, MaskedToken, Numbers, Output, Span, best_span

MASKED, CLASSES, SPAN, NUMBERS = "masked token", "classes", "span", "numbers"
READER = SiteKind("self", "encoder", "self", "text", "text")
WRITER = SiteKind("self", "decoder", "self", "text", "text")

_ONE = Field("text", "text", before=OPENING, after=CLOSING, segment=0)
_TWO = Field("second_text", "text", optional=True, before=SECOND_OPENING, after=SECOND_CLOSING, segment=1)


class HubModel(Architecture):
    """A transformers model that reads one row of tokens. `marks_segments` says whether it is told which text a token is of."""

    fields = (Field("text", "text", before=OPENING, after=CLOSING),)
    streams: ClassVar[tuple[str, ...]] = ("text",)
    kinds = (READER,)
    first_reads_sum, positions_can_go = False, False
    what_it_answers = "nothing: it makes vectors, which are read by other programs"

    def __init__(
        self, module: nn.Module, config: HubConfig, *, taps: Taps | None = None, marks_segments: bool = False, pairs: bool = True,
    ) -> None:
        nn.Module.__init__(self)        # not Architecture's: its parts are all in the module
        self.config, self.module, self.positions = config, module.eval(), None
        self.marks_segments, self.taps = marks_segments, taps or Taps()
        self.fields = type(self).fields if pairs else tuple(f for f in type(self).fields if not (f.segment and f.optional))
        mark_modules(module, self.taps)

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    @property
    def masks_can_change(self) -> bool:
        return not self.config.gives_weights

    @property
    def similarity(self) -> str:
        """None that can be exchanged: nobody trained these weights here."""
        return ""

    def forward(self, text: Int[Tensor, "batch n"], segments: Int[Tensor, "batch n"] | None = None) -> Tensor | Answers:
        made = self.ask(self.places(text), **self.row(text), **self._segments(segments))
        return self.answers_of(made)

    def inputs(self, rows: Sequence[Mapping[str, Encoding]]) -> tuple[Tensor, ...]:
        ids = super().inputs(rows)
        segments = [row["text"].segments or (0,) * len(row["text"].ids) for row in rows] if "text" in self.streams else []
        return (*ids, self.padded(segments, 0)) if self.marks_segments else ids

    def examples(self, tokenizer: Tokenizer) -> list[Any]:
        """Texts to try it on; of a model without a tokenizer ids."""
        if not tokenizer.frames:
            return [" ".join(str(i) for i in range(3, 11) if i < self.config.vocab_size)]
        return self._examples(tokenizer)

    def _examples(self, tokenizer: Tokenizer) -> list[Any]:
        return ["The little dog was very hungry because it had not eaten.", "She is reading a book about the sea."]

    def answers_of(self, made: Any) -> Answers:
        """What it answers, batch first."""
        return {NUMBERS: next(t for t in made.values() if isinstance(t, Tensor))}

    def outputs(self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer) -> dict[str, Output]:
        stream = self.streams[0]
        n, shape = len(streams[stream].ids), tuple(answers[NUMBERS].shape)
        return {NUMBERS: Numbers(stream, (n, *shape[1:]) if len(shape) > 1 else shape)}

    def answer(self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer) -> str:
        return ""

    def masks(self, *ids: Int[Tensor, "batch _"]) -> Masks:
        """None that is known before a run: the model makes its own, and the recorder takes them apart."""
        return {}

    def ask(self, places: Places, **inputs: Any) -> Any:
        """What the module answers, under watch."""
        with watching(places) as seen:
            if not self.config.gives_weights:
                return self.module(**inputs)
            made = self.module(**inputs, output_attentions=True)
            given_weights.record(seen, made, self.kinds)
            return made

    def places(self, text: Int[Tensor, "batch n"], start: int = 0) -> Places:
        """Where the attentions of a pass over this row stand."""
        kind, n = self.kinds[0], text.shape[1]
        known = text != self.config.pad_id
        padding = {} if start else {kind.key_stream: known}
        return Places(lambda frame: kind, n, start, {kind.key_stream: start + n}, padding, self.groups, self.token_table)

    @property
    def token_table(self) -> Tensor | None:
        """The embedding matrix."""
        return self.module.get_input_embeddings().weight

    @property
    def groups(self) -> int:
        """How many heads read one key head."""
        return max(1, self.config.n_heads // self.config.n_key_heads)

    def row(self, ids: Int[Tensor, "batch n"], name: str = "input_ids", mask: str = "attention_mask") -> dict[str, Tensor]:
        """A row of tokens as the module takes it; a mask only where short rows were filled up."""
        known = ids != self.config.pad_id
        filled = {name: ids.masked_fill(~known, self.config.fill_id)}
        return filled if bool(known.all()) else filled | {mask: known.long()}

    def _segments(self, segments: Tensor | None) -> dict[str, Tensor]:
        return {} if segments is None else {"token_type_ids": segments}


class CausalLM(HubModel):
    """Every token is predicted from those before it."""

    fields = (Field("text", "text", before=OPENING), Field("continuation", "text", optional=True))
    writes = "text"
    kinds = (WRITER,)
    what_it_answers = "the next token, and it goes on with a text"

    def forward(self, text: Int[Tensor, "batch n"], masks: Masks | None = None) -> Float[Tensor, "batch n vocab"]:
        return self.decode(text, None, {})

    def opening(self, given: Int[Tensor, "batch n"]) -> Int[Tensor, "batch n"]:
        return given

    def written_masks(self, given: Int[Tensor, "batch n"], row: Int[Tensor, "batch m"], start: int = 0) -> Masks:
        return {}

    def encode(self, given: Int[Tensor, "batch n"], masks: Masks) -> None:
        return

    def decode(
        self, row: Int[Tensor, "batch m"], memory: None, masks: Masks, cache: Cache | None = None, start: int = 0
    ) -> Float[Tensor, "batch m vocab"]:
        past = {} if cache is None else {"past_key_values": of_library(cache).past}
        return self.ask(self.places(row, start), **self.row(row), **past, use_cache=cache is not None).logits

    def longest(self, n_given: int) -> int:
        return min(self.config.n_ctx - n_given, 50)

    outputs, answer = Architecture.outputs, Architecture.answer


class MaskedLM(HubModel):
    """Tokens in whose place a mask stands are guessed from both sides."""

    fields = (_ONE, _TWO, Field("masked", "text", optional=True, kind=POSITIONS))
    what_it_answers = "the token behind each mask"

    def _examples(self, tokenizer: Tokenizer) -> list[Any]:
        _, mask = tokenizer.special("mask") or (0, "hungry")
        return [f"The little dog was very {mask}.", f"She is {mask} a book."]

    def answers_of(self, made: Any) -> Answers:
        return {MASKED: made.logits}

    def outputs(self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer) -> dict[str, Output]:
        row = streams["text"]
        positions = tuple(i for i, token in enumerate(row.ids) if token == tokenizer.mask_id)
        logits, known = answers[MASKED][list(positions)], dict(row.hidden)
        predicted = tokenizer.tokens(logits.argmax(-1).tolist())
        return {MASKED: MaskedToken("text", positions, tuple(known.get(i) for i in positions), logits, predicted)}

    def answer(self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer) -> str:
        """The text with its masks filled in."""
        found, ids = outputs[MASKED], list(streams["text"].ids)
        for position, best in zip(found.positions, found.logits.argmax(-1).tolist(), strict=True):
            ids[position] = best
        return tokenizer.decode(i for i in ids if not tokenizer.is_special(i)) if found.positions else ""


class Classifier(HubModel):
    """One class for the whole row. `position` is of the token whose vector answers: 0, or −1 for the last."""

    fields = (_ONE, _TWO)
    what_it_answers = "a class of the text"

    def __init__(self, *args: Any, names: Sequence[str], position: int = 0, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.names, self.position = tuple(names), position

    def answers_of(self, made: Any) -> Answers:
        return {CLASSES: made.logits}

    def outputs(self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer) -> dict[str, Output]:
        n = len(streams["text"].ids)
        return {CLASSES: ClassProbabilities("text", self.position % n, self.names, answers[CLASSES])}

    def answer(self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer) -> str:
        return outputs[CLASSES].predicted


class QuestionAnswering(HubModel):
    """Where in a text the answer to a question stands."""

    fields = (
        Field("question", "text", before=OPENING, after=CLOSING, segment=0),
        Field("context", "text", before=SECOND_OPENING, after=SECOND_CLOSING, segment=1),
    )
    what_it_answers = "where the answer to a question begins and ends"

    def examples(self, tokenizer: Tokenizer) -> list[Any]:
        if not tokenizer.frames:
            return [["3 4 5", "6 7 8 9"]]
        return [["Where is Mary?", "Mary went to the kitchen. John moved to the garden."]]

    def answers_of(self, made: Any) -> Answers:
        return {"start": made.start_logits, "end": made.end_logits}

    def outputs(self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer) -> dict[str, Output]:
        row, n = streams["text"], len(streams["text"].ids)
        places = zip(row.segments, row.offsets, strict=True)
        outside = torch.tensor([segment != 1 or offset is None for segment, offset in places])
        start, end = (answers[name][:n].masked_fill(outside, -torch.inf) for name in ("start", "end"))
        first, last = best_span(start, end)
        return {SPAN: Span("text", start, end, first, last, row.text[row.offsets[first][0] : row.offsets[last][1]])}

    def answer(self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer) -> str:
        return outputs[SPAN].text


class EncoderDecoderLM(HubModel):
    """A source is read once, a target is written from it."""

    fields = (Field("source", "source", before=OPENING, after=CLOSING), Field("target", "target", optional=True, before="start"))
    streams = ("source", "target")
    writes = "target"
    kinds = (ENCODER_SELF, DECODER_SELF, CROSS)
    what_it_answers = "another text, token by token"

    def forward(self, source: Int[Tensor, "batch n"], target: Int[Tensor, "batch m"]) -> Float[Tensor, "batch m vocab"]:
        masks = self.written_masks(source, target)
        return self.decode(target, self.encode(source, masks), masks)

    def opening(self, given: Int[Tensor, "batch n"]) -> Int[Tensor, "batch 1"]:
        return torch.full((len(given), 1), self.config.start_id, device=given.device)

    def written_masks(self, given: Int[Tensor, "batch n"], row: Int[Tensor, "batch m"], start: int = 0) -> Masks:
        """What of the source is padding; the rest is the model's own."""
        return {CROSS.name: Mask([padding(given, self.config.pad_id)], start)}

    def encode(self, given: Int[Tensor, "batch n"], masks: Masks) -> Float[Tensor, "batch n d_model"]:
        known = given != self.config.pad_id
        places = Places(lambda frame: ENCODER_SELF, given.shape[1], 0, {"source": given.shape[1]}, {"source": known}, self.groups,
                        self.token_table)
        with watching(places):
            return self.module.get_encoder()(**self.row(given)).last_hidden_state

    def decode(
        self, row: Int[Tensor, "batch m"], memory: Float[Tensor, "batch n d_model"], masks: Masks,
        cache: Cache | None = None, start: int = 0,
    ) -> Float[Tensor, "batch m vocab"]:
        from transformers.modeling_outputs import BaseModelOutput

        known = _known(masks)
        past = {} if cache is None else {"past_key_values": of_library(cache, crosses=True).past}
        return self.ask(
            self._places(row, memory, known, start), encoder_outputs=BaseModelOutput(last_hidden_state=memory),
            decoder_input_ids=row.masked_fill(row == self.config.pad_id, self.config.fill_id), **past, use_cache=cache is not None,
            **({} if bool(known.all()) else {"attention_mask": known.long()}),
        ).logits

    def _places(self, row: Tensor, memory: Tensor, known: Tensor, start: int) -> Places:
        def kind(frame: Frame) -> SiteKind:
            """Of a module that was given what the encoder made, cross-attention."""
            return CROSS if any(t is memory for t in frame.given) else DECODER_SELF

        lengths = {"source": memory.shape[1], "target": start + row.shape[1]}
        written = {} if start else {"target": row != self.config.pad_id}
        return Places(kind, row.shape[1], start, lengths, {"source": known, **written}, self.groups, self.token_table)

    def longest(self, n_given: int) -> int:
        return min(2 * n_given + 20, self.config.n_ctx - 1)

    outputs, answer = Architecture.outputs, Architecture.answer


def _known(masks: Masks) -> Bool[Tensor, "batch n"]:
    """Where the source has tokens."""
    return masks[CROSS.name].layers[0].allowed[:, 0, 0]


