"""Models that compare texts: next-sentence prediction and multiple choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from jaxtyping import Int
from torch import Tensor, nn

from models.architectures.base import Answers, Field
from models.architectures.bert import IS_NEXT, NEXT_SENTENCE
from models.hub.model import HubModel
from models.hub.readers import MASKED_OUTPUT, ONE_TEXT_FIELD, SECOND_TEXT, Classifier, MaskedLM
from models.hub.tokenizer import CLOSING, OPENING, SECOND_CLOSING, SECOND_OPENING, frames_of
from models.layers.masks import SiteKind
from models.tokenizers.base import Encoding, Tokenizer
from models.tokenizers.encoding import concatenate
from models.trace.outputs import ChoiceProbabilities, ClassProbabilities, Output

CHOICE_HEAD = "choice"
CHOICE_ROWS = tuple(f"row of choice {i}" for i in range(1, 5))


class NextSentence(Classifier):
    """A classifier of whether a second text follows the first (Devlin et al. 2019, §3.1)."""

    fields = (ONE_TEXT_FIELD, replace(SECOND_TEXT, optional=False))
    pair_output = output_name = NEXT_SENTENCE
    answer_description = "whether a second text follows the first"

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, names=IS_NEXT, **settings)

    def examples(self, tokenizer: Tokenizer) -> list[Any]:
        if not frames_of(tokenizer):
            return [["3 4 5", "6 7 8 9"]]
        return [["She opened the door.", "The room was dark."]]


class MaskedPair(MaskedLM):
    """A model pretrained on masks and pairs of texts (BERT)."""

    pair_output = NEXT_SENTENCE

    def answers_of(self, output: Any) -> Answers:
        of_pair = next(
            output[name] for name in output if name.endswith(("relationship_logits", "sop_logits"))
        )
        return {MASKED_OUTPUT: output.prediction_logits, NEXT_SENTENCE: of_pair}

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        outputs = super().outputs(answers, streams, tokenizer)
        if 1 not in streams["text"].segments:
            return outputs
        pair = ClassProbabilities("text", 0, IS_NEXT, answers[NEXT_SENTENCE])
        return outputs | {NEXT_SENTENCE: pair}


class MultipleChoice(HubModel):
    """The best of several answers to a question.

    Each answer is read in a row of its own, after the question, and gets one logit.
    """

    fields = (
        Field("question", CHOICE_ROWS[0], before=OPENING, after=CLOSING, segment=0),
        *(
            Field(
                f"choice_{i + 1}",
                row,
                optional=i > 1,
                before=SECOND_OPENING,
                after=SECOND_CLOSING,
                segment=1,
            )
            for i, row in enumerate(CHOICE_ROWS)
        ),
    )
    streams = CHOICE_ROWS
    kinds = tuple(
        SiteKind(f"self_{i + 1}", "encoder", "self", row, row) for i, row in enumerate(CHOICE_ROWS)
    )
    answer_description = "which of several texts best fits a question"

    def __init__(self, *args: Any, position: int | None, **settings: Any) -> None:
        super().__init__(*args, **settings)
        # of the token whose vector gives the logit: 0, −1 for the last, or None for several tokens
        self.position = position

    @property
    def reader(self) -> nn.Module:
        return self.module.base_model

    def examples(self, tokenizer: Tokenizer) -> list[Any]:
        if not frames_of(tokenizer):
            return [["3 4 5", "6 7 8 9", "10 11 12"]]
        return [["The glass fell from the table.", "It broke.", "It sang a song."]]

    def completed(
        self, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Encoding]:
        """Return a row for each choice: the question, then the choice.

        A row of an earlier run already holds both.
        """
        first = streams[CHOICE_ROWS[0]]
        n = first.segments.index(1)
        text_end = max(offset[1] for offset in first.offsets[:n] if offset is not None)
        question = Encoding(
            first.text[:text_end],
            first.ids[:n],
            first.tokens[:n],
            first.offsets[:n],
            first.segments[:n],
            special=first.special,
        )
        others = {
            row: choice if 0 in choice.segments else concatenate(question, choice, " ")
            for row, choice in streams.items()
            if row != CHOICE_ROWS[0]
        }
        return {CHOICE_ROWS[0]: first, **others}

    def repeated(self, ids: Int[Tensor, "batch n"]) -> tuple[Tensor, ...]:
        """Return two equal choices."""
        types = () if self.token_types is None else (torch.zeros_like(ids),) * 2
        return (ids, ids, *types)

    def inputs(self, rows: Sequence[Mapping[str, Encoding]]) -> tuple[Tensor, ...]:
        """Return the ids of each choice's row, then their token types if the model takes any.

        Raises ValueError for rows with different numbers of choices.
        """
        present = [row for row in CHOICE_ROWS if row in rows[0]]
        if any([name for name in CHOICE_ROWS if name in row] != present for row in rows):
            raise ValueError("rows with different numbers of choices cannot run as one batch")
        ids = [self.padded([row[name].ids for row in rows], self.config.pad_id) for name in present]
        if self.token_types is None:
            return tuple(ids)
        types = [self.padded(self.types_of([row[name] for row in rows]), 0) for name in present]
        return (*ids, *types)

    def forward(self, *tensors: Int[Tensor, "batch _"]) -> Answers:
        n = len(tensors) if self.token_types is None else len(tensors) // 2
        types = tensors[n:] or (None,) * n
        logits, names = [], set()  # an attention of the second choice is called "path (2)"
        for kind, ids, of_tokens in zip(self.kinds, tensors[:n], types, strict=False):
            row = self.row(ids) | self._type_inputs(of_tokens)
            one = {name: values[:, None] for name, values in row.items()}  # (batch, 1, n)
            context = replace(self.pass_context(ids, kind=kind), names=names)
            logits.append(self.ask(context, **one).logits)
        return {CHOICE_HEAD: torch.cat(logits, -1)}

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        names = tuple(self._choice(streams[row]) for row in CHOICE_ROWS if row in streams)
        best = int(answers[CHOICE_HEAD].argmax())
        n = len(streams[CHOICE_ROWS[best]].ids)
        position = None if self.position is None else self.position % n
        return {
            CHOICE_HEAD: ChoiceProbabilities(
                CHOICE_ROWS[best], position, names, answers[CHOICE_HEAD]
            )
        }

    @staticmethod
    def _choice(row: Encoding) -> str:
        places = zip(row.segments, row.offsets, strict=True)
        offsets = [offset for segment, offset in places if segment == 1 and offset is not None]
        return row.text[offsets[0][0] : offsets[-1][1]]

    def answer(
        self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> str:
        return cast(ChoiceProbabilities, outputs[CHOICE_HEAD]).predicted
