"""Models of others that read a text whole and answer in one pass: with guesses for masks, a class, or a place in the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from models.architectures.base import CLASSES, MASKED, NEXT_TOKEN, POSITIONS, Answers, Field
from models.hub.answer_heads import Head, class_heads, masked_heads
from models.hub.model import HubModel
from models.hub.tokenizer import CLOSING, OPENING, SECOND_CLOSING, SECOND_OPENING
from models.tokenizers.base import Encoding, Tokenizer
from models.trace.outputs import ClassProbabilities, MaskedToken, Output, Span, best_span

SPAN = "span"
ONE_TEXT = Field("text", "text", before=OPENING, after=CLOSING, segment=0)
SECOND_TEXT = Field(
    "second_text", "text", optional=True, before=SECOND_OPENING, after=SECOND_CLOSING, segment=1
)


class HeadReader(HubModel):
    """A model whose answer comes from one head on the states of its last layer."""

    output_name: str  # of the output that the head makes
    head: Head | None = None  # where a run bears one out (probe.py)

    @property
    def read_stream(self) -> str:
        return "text" if self.head else ""

    @property
    def read_outputs(self) -> tuple[str, ...]:
        return (self.output_name,) if self.head else ()

    def readout(
        self, x: Float[Tensor, "*places d_model"], output: str = NEXT_TOKEN
    ) -> Float[Tensor, "*places logit"]:
        """Apply its own last norm and head; for any other output than theirs see HubModel."""
        if self.head is None or output != self.output_name:
            return super().readout(x, output)
        return self.head(self.last_norm(x))

    def possible_heads(self) -> list[Head]:
        """Return the ways from the states to the answer that are tried."""
        raise NotImplementedError

    def answering(
        self, states: Float[Tensor, "batch n d_model"]
    ) -> Float[Tensor, "batch *n d_model"]:
        """Select the states that the head reads."""
        return states


class MaskedLM(HeadReader):
    """Tokens in whose place a mask stands are guessed from both sides."""

    output_name = MASKED

    fields = (ONE_TEXT, SECOND_TEXT, Field("masked", "text", optional=True, kind=POSITIONS))
    what_it_answers = "the token behind each mask"

    def possible_heads(self) -> list[Head]:
        return masked_heads(self.module)

    def _examples(self, tokenizer: Tokenizer) -> list[Any]:
        _, mask = tokenizer.special("mask") or (0, "hungry")
        return [f"The little dog was very {mask}.", f"She is {mask} a book."]

    def answers_of(self, output: Any) -> Answers:
        return {MASKED: output.logits}

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        row = streams["text"]
        positions = tuple(i for i, token in enumerate(row.ids) if token == tokenizer.mask_id)
        logits, known = answers[MASKED][list(positions)], dict(row.hidden)
        predicted = tokenizer.tokens(logits.argmax(-1).tolist())
        return {
            MASKED: MaskedToken(
                "text", positions, tuple(known.get(i) for i in positions), logits, predicted
            )
        }

    def answer(
        self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> str:
        """The text with its masks filled in."""
        found, ids = outputs[MASKED], list(streams["text"].ids)
        for position, best in zip(found.positions, found.logits.argmax(-1).tolist(), strict=True):
            ids[position] = best
        return (
            tokenizer.decode(i for i in ids if not tokenizer.is_special(i))
            if found.positions
            else ""
        )


class Classifier(HeadReader):
    """One class for the whole row. `position` is of the token whose vector answers: 0, or −1 for the last."""

    fields = (ONE_TEXT, SECOND_TEXT)
    output_name = CLASSES
    what_it_answers = "a class of the text"

    def __init__(
        self, *args: Any, names: Sequence[str], position: int = 0, **settings: Any
    ) -> None:
        super().__init__(*args, **settings)
        self.names, self.position = tuple(names), position

    def possible_heads(self) -> list[Head]:
        return class_heads(self.module)

    def answering(self, states: Float[Tensor, "batch n d_model"]) -> Float[Tensor, "batch d_model"]:
        return states[:, self.position]

    def answers_of(self, output: Any) -> Answers:
        return {self.output_name: output.logits}

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        n, logits = len(streams["text"].ids), answers[self.output_name]
        return {self.output_name: ClassProbabilities("text", self.position % n, self.names, logits)}

    def answer(
        self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> str:
        return outputs[self.output_name].predicted


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
            SPAN: Span(
                "text",
                start,
                end,
                first,
                last,
                row.text[row.offsets[first][0] : row.offsets[last][1]],
            )
        }

    def answer(
        self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> str:
        return outputs[SPAN].text
