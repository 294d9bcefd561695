"""Statistics of paired differences: bootstrap intervals, and Holm's correction for many tests."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

N_SIGN_RESAMPLES = 10_000
LEVEL = 0.05
DRAWS_AT_ONCE = 2**22  # numbers drawn at once


@dataclass(frozen=True)
class Interval:
    """A mean difference with its 95 % paired-bootstrap interval and two-sided p (Koehn 2004)."""

    mean: float
    low: float
    high: float
    p: float


def bootstrap(differences: Float[Tensor, "text"], seed: int = 0) -> Interval:
    """Resample texts with replacement; percentiles 2.5 and 97.5 of the mean.

    p is twice the share of resampled means on the other side of 0, at least 1/(resamples + 1).
    """
    n, rng = len(differences), torch.Generator().manual_seed(seed)
    values, part = differences.double(), max(1, DRAWS_AT_ONCE // n)
    sizes = [min(part, N_SIGN_RESAMPLES - done) for done in range(0, N_SIGN_RESAMPLES, part)]
    samples = (torch.randint(n, (size, n), generator=rng) for size in sizes)
    means = torch.cat([values[each].mean(1) for each in samples])
    low, high = torch.quantile(means, torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    beyond = min(int((means <= 0).sum()), int((means >= 0).sum()))
    p = min(1.0, 2 * (beyond + 1) / (N_SIGN_RESAMPLES + 1))
    return Interval(float(differences.double().mean()), low, high, p)


def holm(p: Sequence[float], level: float = LEVEL) -> tuple[bool, ...]:
    """Return which of these tests hold together at this level (Holm 1979)."""
    holds = [False] * len(p)
    for rank, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        if p[i] > level / (len(p) - rank):
            break
        holds[i] = True
    return tuple(holds)
