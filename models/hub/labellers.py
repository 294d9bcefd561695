"""Models that label every token of a text: with classes of their own, or as original or replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from models.architectures.base import Answers
from models.hub.model import HubModel
from models.hub.readers import ONE_TEXT, SECOND_TEXT
from models.tokenizers.base import Encoding, Tokenizer
from models.trace.outputs import Output, TokenClasses

TOKEN_CLASSES = "token classes"
REPLACED = ("original", "replaced")  # by the sign of a discriminator's logit


class TokenClassifier(HubModel):
    """A class for each token, as in named-entity recognition."""

    fields = (ONE_TEXT, SECOND_TEXT)
    what_it_answers = "a class of each token"

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
        """Each token of the text with its most probable class, as "Mary/PER sings/O"."""
        row, classes = streams["text"], outputs[TOKEN_CLASSES].predicted
        pairs = zip(row.tokens, row.offsets, classes, strict=True)
        return " ".join(f"{token}/{name}" for token, offset, name in pairs if offset is not None)


class Discriminator(TokenClassifier):
    """A model that tells the original tokens of a text from replaced ones (Clark et al. 2020), by one logit a token."""

    what_it_answers = "whether each token is the original one or was replaced"

    def answers_of(self, output: Any) -> Answers:
        """softmax of (0, z) is (1 − σ(z), σ(z))."""
        return {TOKEN_CLASSES: torch.stack([torch.zeros_like(output.logits), output.logits], -1)}
