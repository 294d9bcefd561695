"""The typed answers of a run. A page picks its picture from the type."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from models.number_text import decimal


@runtime_checkable
class Output(Protocol):
    """An answer of a model, as far as every page needs to know it.

    Its type selects the picture; an unknown type is described in words.
    """

    @property
    def stream(self) -> str:
        """Stream whose tokens the answer lines up with."""
        ...


def first_choices(logits: Float[Tensor, "n vocab"]) -> list[int]:
    """Return the most probable token of each row.

    numpy takes a fifth of the time of torch here.
    """
    return logits.detach().numpy().argmax(-1).tolist()


@dataclass(frozen=True)
class NextToken:
    """The distribution of the next token after each token of a stream."""

    stream: str
    labels: tuple[int, ...]  # token after each position; a text without end has one fewer
    logits: Float[Tensor, "n vocab"]  # of the token after each position
    predicted: tuple[str, ...]  # the most probable token after each position

    @cached_property
    def log_probs(self) -> Float[Tensor, "n vocab"]:
        """Log-softmax of the logits, in nats."""
        return self.logits.float().log_softmax(-1)

    @cached_property
    def last(self) -> Float[Tensor, "vocab"]:
        """Last row of `log_probs`, without computing the others."""
        return self.logits[-1].float().log_softmax(-1)

    @cached_property
    def surprisal(self) -> Float[Tensor, "label"]:
        """−log₂ p of each label after the tokens before it, in bits."""
        return -self.log_probs[range(len(self.labels)), list(self.labels)] / math.log(2)

    @property
    def is_closed(self) -> bool:
        """True if the last label ends the text, as in a decoder; a prompt stays open."""
        return len(self.labels) == len(self.logits)


@dataclass(frozen=True)
class MaskedToken:
    """The distribution of the token at each [MASK] of a stream."""

    stream: str
    positions: tuple[int, ...]  # of the masks on the stream
    labels: tuple[int | None, ...]  # the token that each mask hides; None if [MASK] was typed
    logits: Float[Tensor, "n vocab"]  # one row per mask
    predicted: tuple[str, ...]  # the most probable token at each

    @cached_property
    def log_probs(self) -> Float[Tensor, "n vocab"]:
        """Log-softmax of the logits, in nats."""
        return self.logits.float().log_softmax(-1)


@dataclass(frozen=True)
class TokenInOrder:
    """The distribution at each position of a stream, given the tokens before it in an order.

    Permutation language modelling, Yang et al. 2019.
    """

    stream: str
    order: tuple[int, ...]  # all positions, in the order in which they are predicted
    labels: tuple[int, ...]  # the token at each position
    logits: Float[Tensor, "n vocab"]  # one row per position
    predicted: tuple[str, ...]  # the most probable token at each position

    @cached_property
    def log_probs(self) -> Float[Tensor, "n vocab"]:
        """Log-softmax of the logits, in nats."""
        return self.logits.float().log_softmax(-1)

    @cached_property
    def surprisal(self) -> Float[Tensor, "n"]:
        """−log₂ p of each token given those before it in the order, in bits.

        Their sum is the surprisal of the text.
        """
        return -self.log_probs[range(len(self.labels)), list(self.labels)] / math.log(2)


@dataclass(frozen=True)
class ClassProbabilities:
    """The probabilities of the classes that the model assigns to the whole row."""

    stream: str
    position: int | None  # of the token whose vector is classified; None where several are
    names: tuple[str, ...]
    logits: Float[Tensor, "n_classes"]

    @cached_property
    def probabilities(self) -> Float[Tensor, "n_classes"]:
        """Softmax of the logits."""
        return self.logits.float().softmax(-1)

    @property
    def predicted(self) -> str:
        """Name of the most probable class."""
        return self.names[int(self.logits.argmax())]


@dataclass(frozen=True)
class ChoiceProbabilities(ClassProbabilities):
    """The probabilities that each of several texts is the answer to a question.

    `stream` and `position` are those of the token whose vector is scored, in the row of the best
    choice; `names` are the choices.
    """


@dataclass(frozen=True)
class MultiLabelProbabilities:
    """The probability of each label of the whole row: several may hold, or none.

    Each label is a separate yes/no decision (multi-label classification).
    """

    stream: str
    position: int | None  # of the token whose vector is judged; None where several are
    names: tuple[str, ...]
    values: Float[Tensor, "label"]  # logits, which no softmax compares

    @cached_property
    def probabilities(self) -> Float[Tensor, "label"]:
        """Sigmoid of the values."""
        return self.values.float().sigmoid()

    @property
    def logits(self) -> Float[Tensor, "label 2"]:
        """Return a row (0, value) per label: the logits of "does not hold" and "holds".

        Their softmax is the sigmoid of the value, so that each label is a decision of its own.
        """
        return torch.stack([torch.zeros_like(self.values), self.values], -1)

    @property
    def likelier(self) -> tuple[str, ...]:
        """The more probable of the two options of each label."""
        return tuple(self.option_name(i, value > 0) for i, value in enumerate(self.values.tolist()))

    def option_name(self, label: int, holds: bool) -> str:
        """Return the name of a label, after "not" if it does not hold."""
        return self.names[label] if holds else f"not {self.names[label]}"

    @property
    def holding(self) -> tuple[str, ...]:
        """The labels that more probably hold than not."""
        return tuple(n for n, value in zip(self.names, self.values, strict=True) if value > 0)

    @property
    def in_words(self) -> str:
        """The holding labels as one phrase."""
        return ", ".join(self.holding) or "none of its labels"


@dataclass(frozen=True)
class RegressionValues:
    """A number for each label of the whole row, which is the answer, as in a regression."""

    stream: str
    names: tuple[str, ...]
    values: Float[Tensor, "label"]

    @property
    def in_words(self) -> str:
        """The values, with the names of their labels if there are several."""
        numbers = [decimal(value, 3) for value in self.values.tolist()]
        pairs = zip(self.names, numbers, strict=True)
        return numbers[0] if len(numbers) == 1 else ", ".join(map(" ".join, pairs))


@dataclass(frozen=True)
class TokenClasses:
    """A class of each token of a stream, or of each part that a token of a sound has."""

    stream: str
    names: tuple[str, ...]
    logits: Float[Tensor, "n n_classes"]  # one row per token, or per part
    parts: tuple[str, ...] = ()  # where each part begins, if they are not the tokens
    sources: tuple[int | None, ...] = ()  # token whose vector each part is read from; None for none

    @cached_property
    def log_probs(self) -> Float[Tensor, "n n_classes"]:
        """Log-softmax of the logits, in nats."""
        return self.logits.float().log_softmax(-1)

    @property
    def predicted(self) -> tuple[str, ...]:
        """Name of the most probable class of each token."""
        return tuple(self.names[i] for i in self.logits.argmax(-1).tolist())

    def source(self, row: int) -> int | None:
        """Return the token whose vector a row is read from; None if there is none."""
        return self.sources[row] if self.parts else row


@dataclass(frozen=True)
class Span:
    """The start and end of an answer within a stream (Devlin et al. 2019, §4.2).

    The logits are −∞ outside the part that an answer may come from.
    """

    stream: str
    start_logits: Float[Tensor, "n"]
    end_logits: Float[Tensor, "n"]
    start: int  # first and last token of the most probable span
    end: int
    text: str  # of the most probable span

    @cached_property
    def log_probs(self) -> Float[Tensor, "n n"]:
        """Log p(start = row) + log p(end = column), in nats; −∞ if the end precedes the start."""
        start, end = (
            logits.float().log_softmax(-1) for logits in (self.start_logits, self.end_logits)
        )
        ordered = torch.ones(len(start), len(end), dtype=torch.bool).triu()
        return (start[:, None] + end[None]).masked_fill(~ordered, -torch.inf)


def best_span(start_logits: Float[Tensor, "n"], end_logits: Float[Tensor, "n"]) -> tuple[int, int]:
    """Return the first and last token of the span with the largest sum of logits.

    The end does not precede the start.
    """
    sums = (start_logits[:, None] + end_logits[None]).masked_fill(
        ~torch.ones(len(start_logits), len(end_logits), dtype=torch.bool).triu(), -torch.inf
    )
    best = int(sums.argmax())
    return best // len(end_logits), best % len(end_logits)


@dataclass(frozen=True)
class Similarity:
    """How alike the rows of two streams are: the cosine of their vectors.

    `logit` is what the model was trained with, the cosine times a learned factor, plus a `bias` if
    it has one: its pairs are then judged one by one (Zhai et al. 2023).
    """

    stream: str
    other: str
    cosine: float
    logit: float
    bias: float | None = None

    @property
    def probability(self) -> float | None:
        """The probability that the two belong together; None if only several are compared."""
        return None if self.bias is None else float(torch.tensor(self.logit).sigmoid())


@dataclass(frozen=True)
class Numbers:
    """An answer of another type, such as an encoder's vectors: only its shape is shown."""

    stream: str
    shape: tuple[int, ...]
