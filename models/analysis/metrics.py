"""Metrics of an edit: one number, or one for each position; a change is after − before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from models.trace.outputs import Output, Span


def logits_of(outputs: Mapping[str, Output], name: str = "") -> Float[Tensor, "row option"]:
    """Return the logits of an output, one row per answer; by default of the first that has any.

    A class has one row; a span has two, for its start and its end. Labels that are judged one by
    one have a row each, with two options: it does not hold, and it does.

    Raises:
        ValueError: there is no such output, or it has no logits.
    """
    for output in outputs.values() if not name else [outputs.get(name)]:
        if isinstance(output, Span):
            return torch.stack([output.start_logits, output.end_logits])
        logits = getattr(output, "logits", None)
        if logits is not None:
            return logits.reshape(-1, logits.shape[-1])
    raise ValueError(f"this run has no logits{f' of {name!r}' if name else ''} to compare")


@runtime_checkable
class Metric(Protocol):
    """Compare the logits of a run without an edit with those of the run with it."""

    name: str
    unit: str

    def __call__(
        self, before: Float[Tensor, "row option"], after: Float[Tensor, "row option"]
    ) -> Float[Tensor, "*row"]:
        """Return the change: one number, or one for each row of the answer."""
        ...


@dataclass(frozen=True)
class LogProbability:
    """Change of the log-probability of a token, in nats.

    `position` is the row of the logits: for next tokens, the position before the token; −1 is the
    last.
    """

    token: int
    position: int = -1
    name = "change of the log-probability"
    unit = "nats"

    def __call__(
        self, before: Float[Tensor, "row option"], after: Float[Tensor, "row option"]
    ) -> Float[Tensor, ""]:
        """Return log p(token) after − before."""
        was, now = (t[self.position].float().log_softmax(-1)[self.token] for t in (before, after))
        return now - was


@dataclass(frozen=True)
class LogitDifference:
    """Change of the logit of one token minus that of another (Zhang and Nanda 2024)."""

    token: int
    other: int
    position: int = -1
    name = "change of the logit difference"
    unit = "logits"

    def __call__(
        self, before: Float[Tensor, "row option"], after: Float[Tensor, "row option"]
    ) -> Float[Tensor, ""]:
        """Return (token − other) after − before."""
        was, now = (
            t[self.position, self.token] - t[self.position, self.other] for t in (before, after)
        )
        return (now - was).float()


@dataclass(frozen=True)
class Divergence:
    """KL(before ‖ after) in nats, of each position or of one; it says how much, not which way."""

    position: int | None = None
    name = "KL divergence from the answer before"
    unit = "nats"

    def __call__(
        self, before: Float[Tensor, "row option"], after: Float[Tensor, "row option"]
    ) -> Float[Tensor, "*row"]:
        """Return Σ p·(log p − log q) over the options."""
        if self.position is not None:
            before, after = before[self.position], after[self.position]
        log_p, log_q = before.float().log_softmax(-1), after.float().log_softmax(-1)
        apart = torch.where(log_p.isneginf(), 0.0, log_p.exp() * (log_p - log_q))
        return apart.sum(-1).clamp(min=0)


@dataclass(frozen=True)
class Loss:
    """Change of the mean negative log-probability of the labels, in nats per token."""

    labels: tuple[int, ...]  # of the first positions, in order
    name = "change of the loss"
    unit = "nats per token"

    def __call__(
        self, before: Float[Tensor, "row option"], after: Float[Tensor, "row option"]
    ) -> Float[Tensor, ""]:
        """Return the loss after − before; positive is worse."""
        rows, labels = range(len(self.labels)), list(self.labels)
        was, now = (-t.float().log_softmax(-1)[rows, labels].mean() for t in (before, after))
        return now - was
