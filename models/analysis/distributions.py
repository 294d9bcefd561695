"""Distributions over a vocabulary: measures of one token, and checks of shown log-probabilities."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float

from models.analysis.checks import Check


@dataclass(frozen=True)
class Expectation:
    """Measures of one token under a distribution.

    Ranks count from 1; equal probabilities share the better one.
    """

    probability: float
    surprisal: float  # −log₂ p, bits
    rank: int


def expectation(log_probs: Float[torch.Tensor, "vocab"], token: int) -> Expectation:
    """Return the measures of this token; log-probabilities are in nats."""
    log_prob = log_probs[token]
    return Expectation(
        float(log_prob.exp()), float(-log_prob / math.log(2)), 1 + int((log_probs > log_prob).sum())
    )


def entropy_bits(log_probs: Float[torch.Tensor, "vocab"]) -> float:
    """Return −Σ p log₂ p in bits."""
    return float(torch.special.entr(log_probs.exp()).sum() / math.log(2))


def check_softmax(
    logits: Float[torch.Tensor, "*row n"], log_probs: Float[torch.Tensor, "*row n"]
) -> list[Check]:
    """Check that probabilities sum to 1 and log-probabilities are the log-softmax of the logits.

    The log-softmax is computed in float64, −∞ where the logit is. In float32 a log-probability in a
    large vocabulary is off by some 1e-6 of the largest logit.
    """
    if not logits.numel():
        return []
    above = logits.double() - logits.double().amax(-1, keepdim=True)
    by_hand = above - above.exp().sum(-1, keepdim=True).log()
    gap = torch.where(by_hand == log_probs, 0.0, by_hand - log_probs).abs()
    total = (log_probs.double().exp().sum(-1) - 1).abs().max()
    size = max(1.0, float(logits[logits.isfinite()].abs().max()))
    return [
        Check(
            "probabilities sum to 1",
            float(total),
            1e-5,
            "Each distribution sums to 1; largest difference",
        ),
        Check(
            "they are the softmax of the logits",
            float(gap.max()),
            1e-5 * size,
            "Largest difference of a log-probability from one worked out by hand in double precision, in nats",
        ),
    ]
