"""A model's expectations along a text: surprisal in bits, rank, entropy and perplexity."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from models.analysis.checks import Check
from models.trace.outputs import NextToken

PROBABILITIES_AT_ONCE = 2**22  # probabilities computed at a time


@dataclass(frozen=True)
class Expectations:
    """The distribution at each position, and the measures of the token that follows.

    A text without an end has one label fewer than positions. Ranks count from 1; equal
    probabilities share the better one.
    """

    probability: Float[Tensor, "label"]
    surprisal: Float[Tensor, "label"]  # −log₂ p, bits
    rank: Int[Tensor, "label"]
    entropy: Float[Tensor, "n"]  # −Σ p log₂ p, bits

    @property
    def mean_surprisal(self) -> float:
        """Bits per token; NaN without labels."""
        return float(self.surprisal.double().mean())

    @property
    def perplexity(self) -> float:
        """2 to the mean surprisal: the number of equally likely tokens of the same difficulty."""
        return float(2 ** self.surprisal.double().mean())


def expectations(output: NextToken) -> Expectations:
    """Return the expectations at each position of an output."""
    log_probs, labels = output.log_probs, torch.tensor(output.labels, dtype=torch.long)
    label_log_probs = log_probs[torch.arange(len(labels)), labels]
    ranks, entropies = [], []
    for rows in _slices(log_probs):
        more_probable = log_probs[rows][: len(labels[rows])] > label_log_probs[rows][:, None]
        ranks.append(1 + more_probable.sum(-1))
        entropies.append(torch.special.entr(log_probs[rows].exp()).sum(-1) / math.log(2))
    return Expectations(
        label_log_probs.exp(), output.surprisal, torch.cat(ranks), torch.cat(entropies)
    )


def check_expectations(output: NextToken) -> list[Check]:
    """Check that every distribution sums to 1 and surprisal follows from the logits in float64.

    In float32 a log-probability in a large vocabulary is off by some 1e-6 of the largest logit.
    """
    total_error = surprisal_error = 0.0
    for rows in _slices(output.logits):
        logits = output.logits[rows].double()
        total_error = max(
            total_error, float((output.log_probs[rows].exp().sum(-1) - 1).abs().max())
        )
        labels = torch.tensor(output.labels[rows], dtype=torch.long)
        above = logits[: len(labels)] - logits[torch.arange(len(labels)), labels][:, None]
        by_hand = above.logsumexp(-1) / math.log(2)  # log₂ Σ exp(z − z of the label)
        gaps = (by_hand - output.surprisal[rows]).abs()
        surprisal_error = (
            max(surprisal_error, float(gaps.max())) if len(labels) else surprisal_error
        )
    size = max(1.0, float(output.logits.abs().max()))
    return [
        Check(
            "probabilities sum to 1",
            total_error,
            1e-5,
            "Each distribution over the vocabulary sums to 1; largest difference",
        ),
        Check(
            "surprisal is −log₂ softmax of the logits",
            surprisal_error,
            1e-5 * size,
            "Largest difference from a log-softmax by hand in double precision, in bits",
        ),
    ]


def _slices(rows: Tensor) -> list[slice]:
    step = max(1, PROBABILITIES_AT_ONCE // rows.shape[1])
    return [slice(start, start + step) for start in range(0, len(rows), step)]
