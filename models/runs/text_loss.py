"""The loss of a text under any model: of its tokens, of masked ones, or of its answer."""

from collections.abc import Mapping, Sequence
from random import Random

import torch
from jaxtyping import Float
from torch import Tensor

from models.analysis.metrics import logits_of
from models.runs.inputs import InputError, Texts
from models.runs.scope import Scope
from models.tokenizers.base import Encoding
from models.tokenizers.encoding import positions_to_hide
from models.trace.outputs import MaskedToken, NextToken, Output, Span, TokenInOrder

TOKEN_LOSS, MASKED_LOSS, ANSWER_LOSS = "tokens", "masked", "answer"
LOSS_UNITS = {
    TOKEN_LOSS: "nats per token",
    MASKED_LOSS: "nats per masked token",
    ANSWER_LOSS: "nats per answer",
}
LOSS_MASKED_SHARE = 0.15  # of the tokens of a text that are masked (Devlin et al. 2019)

EncodedStreams = Mapping[str, Encoding]


def complete_streams(scope: Scope, values: Texts) -> dict[str, Encoding]:
    """Encode a text with all that its loss needs: the required fields, and a translation.

    Raises:
        InputError: a field is missing or cannot be read, or a row is too long.
        TypeError: the model has fewer fields.
    """
    streams, written = scope.streams(*values), scope.model.writes
    if scope.model.can_write and written not in streams:
        field = next(one for one in scope.model.fields if one.stream == written)
        raise InputError(
            f"the {field.title} is missing; the loss is that of its tokens", field.name
        )
    return streams


def loss_kind(outputs: Mapping[str, Output]) -> str | None:
    """Return the kind of loss, a key of LOSS_UNITS; None for an answer without probabilities."""
    output = next(iter(outputs.values()), None)
    if isinstance(output, NextToken | TokenInOrder):
        return TOKEN_LOSS
    if isinstance(output, MaskedToken):
        return MASKED_LOSS
    try:
        logits_of(outputs)
    except ValueError:
        return None
    return ANSWER_LOSS


def with_hidden(
    scope: Scope, texts: Sequence[EncodedStreams], seed: int = 0
) -> list[EncodedStreams]:
    """Return texts with 15 % of their tokens masked, drawn by the seed, at least one.

    A [MASK] typed in a text stays; its token is not known, so it does not count in the loss.
    Texts without a token that can be masked are left out.
    """
    mask_id, masked_texts = scope.tokenizer.mask_id, []
    for text in texts:
        ((stream, row),) = text.items()
        places = sorted(positions_to_hide(row, mask_id))
        if places:
            rng = Random(f"{seed} {row.ids}")
            hidden = rng.sample(places, max(1, round(LOSS_MASKED_SHARE * len(places))))
            masked_texts.append({stream: scope.tokenizer.hiding(row, sorted(hidden))})
    return masked_texts


def labels_of(outputs: Mapping[str, Output]) -> tuple[int | None, ...]:
    """Return the label of each row of the logits: the tokens read, or else the model's choice.

    A label that is not known is None. The choice of a span is its start and its end, of which each
    need not be the most probable alone.
    """
    output = next(iter(outputs.values()))
    if isinstance(output, Span):
        return output.start, output.end
    if isinstance(output, NextToken | TokenInOrder | MaskedToken):
        return tuple(output.labels)
    return tuple(logits_of(outputs).argmax(-1).tolist())


def loss_of(outputs: Mapping[str, Output], labels: Sequence[int | None]) -> Float[Tensor, ""]:
    """Return the mean negative log-probability of the labels that are known, in nats."""
    labelled = [(row, label) for row, label in enumerate(labels) if label is not None]
    rows, targets = (list(one) for one in zip(*labelled, strict=True))
    return -logits_of(outputs).float().log_softmax(-1)[rows, targets].mean()


class TextLosses:
    """The losses of texts under edits of a model.

    The labels of an answer are the model's choices without edits, so that its own loss shows how
    sure it is.

    Raises:
        ValueError: the model's answer has no probabilities.
    """

    def __init__(self, scope: Scope, texts: Sequence[EncodedStreams], seed: int = 0) -> None:
        self.scope = scope
        kind = loss_kind(scope.outputs_batch(texts[:1])[0])
        if kind is None:
            raise ValueError(f"{scope.name} gives no probabilities, so texts have no loss")
        self.kind = kind
        self.texts = with_hidden(scope, texts, seed) if kind == MASKED_LOSS else list(texts)
        self._chosen: dict[tuple[tuple[int, ...], ...], tuple[int | None, ...]] = {}

    def labels(
        self, texts: Sequence[EncodedStreams], outputs: Sequence[Mapping[str, Output]]
    ) -> list[tuple[int | None, ...]]:
        """Return the labels of each text; `outputs` are its answers under any edits."""
        if self.kind != ANSWER_LOSS:
            return [labels_of(one) for one in outputs]
        keys = [tuple(tuple(row.ids) for row in text.values()) for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._chosen}
        if new:
            answers = self.scope.outputs_batch(list(new.values()))
            self._chosen |= {key: labels_of(one) for key, one in zip(new, answers, strict=True)}
        return [self._chosen[key] for key in keys]

    def losses(
        self, texts: Sequence[EncodedStreams], outputs: Sequence[Mapping[str, Output]]
    ) -> Float[Tensor, "text"]:
        """Return the loss of each text from its answers."""
        every = zip(outputs, self.labels(texts, outputs), strict=True)
        return torch.stack([loss_of(one, labels) for one, labels in every])
