"""Statistics of paired differences: bootstrap intervals, sign flips, and Holm's correction."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

N_RESAMPLES = 10_000  # of texts, or of their signs
FLIPS_FOR_EACH_TEST = 100  # so that the smallest p can pass Holm's correction
LEVEL = 0.05
DRAWS_AT_ONCE = 2**22  # numbers drawn at once


@dataclass(frozen=True)
class Interval:
    """A mean difference with its 95 % paired-bootstrap interval (Koehn 2004)."""

    mean: float
    low: float
    high: float


def bootstrap(differences: Float[Tensor, "text"], seed: int = 0) -> Interval:
    """Resample texts with replacement; percentiles 2.5 and 97.5 of the mean."""
    n, rng = len(differences), torch.Generator().manual_seed(seed)
    values, part = differences.double(), max(1, DRAWS_AT_ONCE // n)
    sizes = [min(part, N_RESAMPLES - done) for done in range(0, N_RESAMPLES, part)]
    samples = (torch.randint(n, (size, n), generator=rng) for size in sizes)
    means = torch.cat([values[each].mean(1) for each in samples])
    low, high = torch.quantile(means, torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return Interval(float(values.mean()), low, high)


def sign_flips(differences: Float[Tensor, "test text"], seed: int = 0) -> tuple[float, ...]:
    """Return the two-sided p of each mean difference, if both signs of a text are equally likely.

    That is the share of random signs whose mean is at least as far from 0, the observed signs
    included (Fisher 1935, section 21; Noreen 1989). So n texts give no p below 2^(1-n), however
    similar they are. p is 1 if a difference is not finite.
    """
    n_tests, n = differences.shape
    n_flips = max(N_RESAMPLES, FLIPS_FOR_EACH_TEST * n_tests)
    part = max(1, DRAWS_AT_ONCE // max(n, n_tests))
    values, rng = differences.double(), torch.Generator().manual_seed(seed)
    observed = values.sum(1).abs() * (1 - 1e-12)  # sums in another order may differ in rounding
    beyond = torch.zeros(n_tests, dtype=torch.int64)
    for done in range(0, n_flips, part):
        signs = torch.randint(2, (min(part, n_flips - done), n), generator=rng).double() * 2 - 1
        beyond += ((signs @ values.T).abs() >= observed).sum(0)
    p = (beyond + 1).double() / (n_flips + 1)
    return tuple(p.where(values.isfinite().all(1), torch.ones_like(p)).tolist())


def holm(p: Sequence[float], level: float = LEVEL) -> tuple[bool, ...]:
    """Return which of these tests hold together at this level (Holm 1979)."""
    holds = [False] * len(p)
    for rank, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        if p[i] > level / (len(p) - rank):
            break
        holds[i] = True
    return tuple(holds)
