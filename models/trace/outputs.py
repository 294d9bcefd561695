"""The typed answers of a run. A page picks its picture from the type."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor


@runtime_checkable
class Output(Protocol):
    """An answer of a model, as far as every page needs to know it. Its type picks the picture; any other type is named in words."""

    @property
    def stream(self) -> str:
        """The stream whose tokens the answer lines up with."""
        ...


def first_choices(logits: Float[Tensor, "n vocab"]) -> list[int]:
    """The most probable token of each row; numpy finds it in a fifth of torch's time."""
    return logits.detach().numpy().argmax(-1).tolist()


@dataclass(frozen=True)
class NextToken:
    """What the model expects after each token of a stream."""

    stream: str
    labels: tuple[
        int, ...
    ]  # the token after each position; of a text that goes on, all but the last's
    logits: Float[Tensor, "n vocab"]  # one row a position: of the token after it
    predicted: tuple[str, ...]  # the most probable token after each position

    @cached_property
    def log_probs(self) -> Float[Tensor, "n vocab"]:
        """log-softmax of the logits, in nats."""
        return self.logits.float().log_softmax(-1)

    @cached_property
    def last(self) -> Float[Tensor, "vocab"]:
        """The last row of `log_probs`, without working out the others."""
        return self.logits[-1].float().log_softmax(-1)

    @cached_property
    def surprisal(self) -> Float[Tensor, "label"]:
        """−log₂ p of each label after the tokens before it, in bits."""
        return -self.log_probs[range(len(self.labels)), list(self.labels)] / math.log(2)

    @property
    def is_closed(self) -> bool:
        """Return True if the last label is the end of the text, as a decoder's is; a language model's text goes on."""
        return len(self.labels) == len(self.logits)


@dataclass(frozen=True)
class MaskedToken:
    """What the model expects in the place of each [MASK] of a stream."""

    stream: str
    positions: tuple[int, ...]  # of the masks on the stream
    labels: tuple[
        int | None, ...
    ]  # the token that a mask stands in the place of; None where [MASK] was typed
    logits: Float[Tensor, "n vocab"]  # one row a mask
    predicted: tuple[str, ...]  # the most probable token at each

    @cached_property
    def log_probs(self) -> Float[Tensor, "n vocab"]:
        """log-softmax of the logits, in nats."""
        return self.logits.float().log_softmax(-1)


@dataclass(frozen=True)
class TokenInOrder:
    """What the model expects at each position of a stream, from the tokens that come before it in an order (Yang et al. 2019)."""

    stream: str
    order: tuple[int, ...]  # all positions, the first to be predicted first
    labels: tuple[int, ...]  # the token at each position
    logits: Float[Tensor, "n vocab"]  # one row a position
    predicted: tuple[str, ...]  # the most probable token at each position

    @cached_property
    def log_probs(self) -> Float[Tensor, "n vocab"]:
        """log-softmax of the logits, in nats."""
        return self.logits.float().log_softmax(-1)

    @cached_property
    def surprisal(self) -> Float[Tensor, "n"]:
        """−log₂ p of the token at each position after those before it in the order, in bits; their sum is that of the text."""
        return -self.log_probs[range(len(self.labels)), list(self.labels)] / math.log(2)


@dataclass(frozen=True)
class ClassProbabilities:
    """What kind of text the model takes the whole row for."""

    stream: str
    position: int  # of the token whose vector answers
    names: tuple[str, ...]
    logits: Float[Tensor, "n_classes"]

    @cached_property
    def probabilities(self) -> Float[Tensor, "n_classes"]:
        """softmax of the logits."""
        return self.logits.float().softmax(-1)

    @property
    def predicted(self) -> str:
        """The name of the most probable class."""
        return self.names[int(self.logits.argmax())]


@dataclass(frozen=True)
class ChoiceProbabilities(ClassProbabilities):
    """How well each of several texts goes with a question. `stream` and `position` are those of the token whose vector answers
    in the row of the best choice; `names` are the choices."""


@dataclass(frozen=True)
class TokenClasses:
    """A class of each token of a stream."""

    stream: str
    names: tuple[str, ...]
    logits: Float[Tensor, "n n_classes"]  # one row a token

    @cached_property
    def log_probs(self) -> Float[Tensor, "n n_classes"]:
        """log-softmax of the logits, in nats."""
        return self.logits.float().log_softmax(-1)

    @property
    def predicted(self) -> tuple[str, ...]:
        """The name of the most probable class of each token."""
        return tuple(self.names[i] for i in self.logits.argmax(-1).tolist())


@dataclass(frozen=True)
class Span:
    """Where in a stream the answer to a question begins and ends (Devlin et al. 2019, §4.2). The logits are −∞ outside the part
    that an answer may come from."""

    stream: str
    start_logits: Float[Tensor, "n"]
    end_logits: Float[Tensor, "n"]
    start: int  # first and last token of the most probable span
    end: int
    text: str  # what they say

    @cached_property
    def log_probs(self) -> Float[Tensor, "n n"]:
        """ln p(start = row)·p(end = column), in nats; −∞ where the end comes before the start."""
        start, end = (
            logits.float().log_softmax(-1) for logits in (self.start_logits, self.end_logits)
        )
        ordered = torch.ones(len(start), len(end), dtype=torch.bool).triu()
        return (start[:, None] + end[None]).masked_fill(~ordered, -torch.inf)


def best_span(start_logits: Float[Tensor, "n"], end_logits: Float[Tensor, "n"]) -> tuple[int, int]:
    """The first and the last token of the span with the largest sum of its two logits, its end not before its start."""
    sums = (start_logits[:, None] + end_logits[None]).masked_fill(
        ~torch.ones(len(start_logits), len(end_logits), dtype=torch.bool).triu(), -torch.inf
    )
    best = int(sums.argmax())
    return best // len(end_logits), best % len(end_logits)


@dataclass(frozen=True)
class Numbers:
    """An answer that is neither words nor a class nor a place, such as an encoder's vectors: only its shape is told."""

    stream: str
    shape: tuple[int, ...]
