"""Models that read a text in one pass: masked tokens, classes of a text or its tokens, spans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from models.architectures.base import (
    CLASSES_OUTPUT,
    MASKED_OUTPUT,
    NEXT_TOKEN,
    POSITIONS_FIELD,
    Answers,
    Field,
)
from models.architectures.bert import SPAN_HEAD
from models.hub.labels import (
    compares_labels,
    describe_labels,
    label_output,
    labels_in_words,
)
from models.hub.model import HubModel
from models.hub.tokenizer import CLOSING, OPENING, SECOND_CLOSING, SECOND_OPENING, frames_of
from models.tokenizers.base import Encoding, Tokenizer
from models.trace.outputs import (
    MaskedToken,
    Output,
    Span,
    TokenClasses,
    best_span,
)

OutputHead = Callable[[Float[Tensor, "*places d_model"]], Float[Tensor, "*places logit"]]


def class_heads(module: Any) -> list[OutputHead]:
    """Return the candidate heads for classes.

    One matrix (GPT-2, Llama); a head that reads one vector (BART, T5); a pooler and a matrix
    (BERT) or a classifier of its own (RoBERTa, ELECTRA), which both read the first token; a layer
    beside the classifier (DistilBERT).
    """
    return [
        lambda x: module.score(x),
        lambda x: module.classification_head(x),
        lambda x: module.cls(module.base_model.pooler(x[:, None])),
        lambda x: module.classifier(module.base_model.pooler(x[:, None])),
        lambda x: module.classifier(x[:, None]),
        lambda x: module.classifier(F.relu(module.pre_classifier(x))),
    ]


def masked_heads(module: Any) -> list[OutputHead]:
    """Return the candidate heads for masked tokens.

    One head (BERT, DeBERTa; RoBERTa; ALBERT), one part of it (BERT with both pretraining tasks),
    or a transform and a matrix beside it (ELECTRA, ModernBERT, DistilBERT).
    """
    return [
        lambda x: module.cls(x),
        lambda x: module.lm_head(x),
        lambda x: module.predictions(x),
        lambda x: module.cls.predictions(x),
        lambda x: module.generator_lm_head(module.generator_predictions(x)),
        lambda x: module.decoder(module.head(x)),
        lambda x: module.vocab_projector(
            module.vocab_layer_norm(module.activation(module.vocab_transform(x)))
        ),
    ]


ONE_TEXT_FIELD = Field("text", "text", before=OPENING, after=CLOSING, segment=0)
SECOND_TEXT = Field(
    "second_text", "text", optional=True, before=SECOND_OPENING, after=SECOND_CLOSING, segment=1
)


class HeadReader(HubModel):
    """A model whose answer comes from one head on the states of its last layer."""

    output_name: str  # the name of the head's output
    head: OutputHead | None = None  # set by confirm.py if a run confirms one

    @property
    def read_stream(self) -> str:
        return "text" if self.head else ""

    @property
    def read_outputs(self) -> tuple[str, ...]:
        return (self.output_name,) if self.head else ()

    def readout(
        self, x: Float[Tensor, "*places d_model"], output: str = NEXT_TOKEN
    ) -> Float[Tensor, "*places logit"]:
        """Apply the model's last norm and head; other outputs are read as in HubModel."""
        if self.head is None or output != self.output_name:
            return super().readout(x, output)
        return self.head(self.last_norm(x))

    def possible_heads(self) -> list[OutputHead]:
        """Return the candidate heads from the last states to the answer."""
        raise NotImplementedError

    def answering(
        self, states: Float[Tensor, "batch n d_model"]
    ) -> Float[Tensor, "batch *n d_model"]:
        """Select the states that the head reads."""
        return states


class BidirectionalLM(HubModel):
    """A language model whose tokens also read what follows them, so that it continues no text."""

    answer_description = "a logit for each token of the vocabulary, at each position"


class MaskedLM(HeadReader):
    """A model that predicts masked tokens from the context on both sides."""

    output_name = MASKED_OUTPUT

    fields = (
        ONE_TEXT_FIELD,
        SECOND_TEXT,
        Field("masked", "text", optional=True, kind=POSITIONS_FIELD),
    )
    answer_description = "the token behind each mask"

    def possible_heads(self) -> list[OutputHead]:
        return masked_heads(self.module)

    def _examples(self, tokenizer: Tokenizer) -> list[Any]:
        _, mask = tokenizer.special("mask") or (0, "hungry")
        return [f"The little dog was very {mask}.", f"She is {mask} a book."]

    def answers_of(self, output: Any) -> Answers:
        return {MASKED_OUTPUT: output.logits}

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        row = streams["text"]
        positions = tuple(i for i, token in enumerate(row.ids) if token == tokenizer.mask_id)
        logits, originals = answers[MASKED_OUTPUT][list(positions)], dict(row.hidden)
        predicted = tokenizer.tokens(logits.argmax(-1).tolist())
        return {
            MASKED_OUTPUT: MaskedToken(
                "text", positions, tuple(originals.get(i) for i in positions), logits, predicted
            )
        }

    def answer(
        self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> str:
        """Return the text with its masks filled in."""
        masked, ids = cast(MaskedToken, outputs[MASKED_OUTPUT]), list(streams["text"].ids)
        for position, best in zip(masked.positions, masked.logits.argmax(-1).tolist(), strict=True):
            ids[position] = best
        return (
            tokenizer.decode(i for i in ids if not tokenizer.is_special(i))
            if masked.positions
            else ""
        )


class Classifier(HeadReader):
    """One class for the whole row.

    `position` is that of the token whose vector is classified: 0, −1 for the last, or None for
    several. `skipped` is the token that does not count as the last one: padding, or −1 for none.
    """

    fields = (ONE_TEXT_FIELD, SECOND_TEXT)
    output_name = CLASSES_OUTPUT

    def __init__(
        self,
        *args: Any,
        names: Sequence[str],
        position: int | None = 0,
        skipped: int = -1,
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        self.names, self.position, self.skipped = tuple(names), position, skipped
        if self.output_name == CLASSES_OUTPUT:
            self.answer_description = describe_labels(self.module, self.names, "text")

    def possible_heads(self) -> list[OutputHead]:
        """Return the candidate heads; none unless a softmax compares the logits of one token."""
        has_one = self.position is not None and compares_labels(self.module, self.names)
        return class_heads(self.module) if has_one else []

    def answering(self, states: Float[Tensor, "batch n d_model"]) -> Float[Tensor, "batch d_model"]:
        return states[:, self.position]

    def answers_of(self, output: Any) -> Answers:
        return {self.output_name: output.logits}

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        position, logits = self.position_in(streams["text"].ids), answers[self.output_name]
        return {self.output_name: label_output(self.module, "text", position, self.names, logits)}

    def position_in(self, ids: Sequence[int]) -> int | None:
        """Return the position of the token whose vector is classified in this row."""
        if self.position is None or self.position == 0:
            return self.position
        others = [i for i, token in enumerate(ids) if token != self.skipped]
        return others[-1] if others else 0

    def answer(
        self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> str:
        return labels_in_words(outputs[self.output_name])


class QuestionAnswering(HubModel):
    """A model that finds the answer to a question in a text."""

    fields = (
        Field("question", "text", before=OPENING, after=CLOSING, segment=0),
        Field("context", "text", before=SECOND_OPENING, after=SECOND_CLOSING, segment=1),
    )
    answer_description = "where the answer to a question begins and ends"

    def examples(self, tokenizer: Tokenizer) -> list[Any]:
        if not frames_of(tokenizer):
            return [["3 4 5", "6 7 8 9"]]
        return [["Where is Mary?", "Mary went to the kitchen. John moved to the garden."]]

    def answers_of(self, output: Any) -> Answers:
        return {"start": output.start_logits, "end": output.end_logits}

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        row, n = streams["text"], len(streams["text"].ids)
        places = zip(row.segments, row.offsets, strict=True)
        outside = torch.tensor([segment != 1 or offset is None for segment, offset in places])
        start, end = (
            answers[name][:n].masked_fill(outside, -torch.inf) for name in ("start", "end")
        )
        first, last = best_span(start, end)
        return {
            SPAN_HEAD: Span(
                "text",
                start,
                end,
                first,
                last,
                text_between(row, first, last),
            )
        }

    def answer(
        self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> str:
        return cast(Span, outputs[SPAN_HEAD]).text


TOKEN_CLASSES = "token classes"
ORIGINAL_OR_REPLACED = ("original", "replaced")  # by the sign of a discriminator's logit


def text_between(row: Encoding, first: int, last: int) -> str:
    """Return the text between two tokens of a row; empty if one of them is not in it."""
    start, end = row.offsets[first], row.offsets[last]
    return "" if start is None or end is None else row.text[start[0] : end[1]]


class TokenClassifier(HubModel):
    """A class for each token, as in named-entity recognition."""

    fields = (ONE_TEXT_FIELD, SECOND_TEXT)
    answer_description = "a class for each token"

    def __init__(self, *args: Any, names: Sequence[str], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.names = tuple(names)

    def answers_of(self, output: Any) -> Answers:
        return {TOKEN_CLASSES: output.logits}

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        logits = answers[TOKEN_CLASSES][: len(streams["text"].ids)]
        return {TOKEN_CLASSES: TokenClasses("text", self.names, logits)}

    def answer(
        self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> str:
        """Return each token with its most probable class, as "Mary/PER sings/O"."""
        row, classes = streams["text"], cast(TokenClasses, outputs[TOKEN_CLASSES]).predicted
        pairs = zip(row.tokens, row.offsets, classes, strict=True)
        return " ".join(f"{token}/{name}" for token, offset, name in pairs if offset is not None)


class Discriminator(TokenClassifier):
    """A classifier of tokens as original or replaced, by one logit each (Clark et al. 2020)."""

    answer_description = "whether each token is the original one or was replaced"

    def answers_of(self, output: Any) -> Answers:
        """Return two logits from one: softmax of (0, z) is (1 − σ(z), σ(z))."""
        return {TOKEN_CLASSES: torch.stack([torch.zeros_like(output.logits), output.logits], -1)}
