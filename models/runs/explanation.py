"""Is attention explanation? Other weights for one row, and the answer under them.

Uniform and permuted weights and an adversary (Jain and Wallace 2019), and the frozen weights of
another model (Wiegreffe and Pinter 2019). Distances are in nats; ln 2 bounds the Jensen-Shannon
divergence.
"""

import math
import time
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from models.runs.attention_row import AttentionRow, round_weights
from models.trace.edits import SetWeights

LN_2 = math.log(2)  # bound of a Jensen-Shannon divergence
EPSILON = 0.05  # total variation of the answer that an adversary may cause
N_PERMUTATIONS = 100
N_ASCENT_STARTS, N_ASCENT_STEPS = 8, 60  # of the adversary's gradient ascent
MAX_SEARCH_SECONDS = 1.5  # seconds of gradient ascent
MAX_CORNERS = 64  # keys that the adversary moves towards, and rows of one pass
RATE, PENALTY = 0.3, 20.0
BISECTIONS = 8
MIN_ROW = 1e-12  # sum below which a row has nothing to replace


def js_divergence(
    p: Float[Tensor, "*#row option"], q: Float[Tensor, "*#row option"]
) -> Float[Tensor, "..."]:
    """Return the Jensen-Shannon divergence in nats, 0 to ln 2."""
    middle = (p + q) / 2
    return ((_relative(p, middle) + _relative(q, middle)) / 2).clamp(min=0)


def _relative(p: Tensor, middle: Tensor) -> Tensor:
    """Return Σ p·log(p/m); m is above 0 wherever p is."""
    safe = torch.where(p > 0, p, 1.0)
    ratio = safe.log() - torch.where(p > 0, middle, 1.0).log()
    return (p * ratio).sum(-1)


def total_variation(
    p: Float[Tensor, "*#row option"], q: Float[Tensor, "*#row option"]
) -> Float[Tensor, "..."]:
    """Return ½ Σ |p − q|: how far two distributions are apart, 0 to 1."""
    return (p - q).abs().sum(-1) / 2


@dataclass(frozen=True, eq=False)
class Trial:
    """Other weights for a row, and the answer under them."""

    weights: Float[Tensor, "key"]
    divergence: float  # Jensen-Shannon, of the weights from the model's own, in nats
    variation: float  # total variation of the answer from the model's own
    log_probs: Float[Tensor, "option"]  # of the answer, in nats
    edit: SetWeights  # sets these weights in a run

    @property
    def predicted(self) -> int:
        """The most probable option."""
        return int(self.log_probs.argmax())


def trials(row: AttentionRow, weights: Float[Tensor, "n key"]) -> list[Trial]:
    """Return a trial of each of these rows of weights, from one batch."""
    log_probs = row.answers(weights).double().log_softmax(-1)
    before = row.logits.double().softmax(-1)
    apart = js_divergence(row.weights, weights.double()).tolist()
    variations = total_variation(before, log_probs.exp()).tolist()
    each = zip(weights.double(), apart, variations, log_probs, strict=True)
    return [Trial(w, js, tv, answer, row.edit(w)) for w, js, tv, answer in each]


def is_movable(row: AttentionRow) -> bool:
    """Return True if the row has two allowed keys and weights to move between them."""
    return int(row.allowed.sum()) > 1 and float(row.weights.sum()) > MIN_ROW


def uniform_weights(row: AttentionRow) -> Trial:
    """Put the same weight on every key that the mask allows."""
    return trials(row, _uniform(row)[None])[0]


@dataclass(frozen=True, eq=False)
class Permutations:
    """The trials of permuted weights, the one with the median change of the answer among them."""

    each: list[Trial]

    @property
    def median(self) -> Trial:
        return sorted(self.each, key=lambda one: one.variation)[(len(self.each) - 1) // 2]

    @property
    def variations(self) -> tuple[float, float, float]:
        """Percentile 2.5, median and percentile 97.5 of the answer's total variation."""
        values = torch.tensor([one.variation for one in self.each], dtype=torch.float64)
        low, high = torch.quantile(values, torch.tensor([0.025, 0.975], dtype=torch.float64))
        return float(low), self.median.variation, float(high)

    def kept(self, option: int) -> int:
        """Return how many of the permutations predict this option."""
        return sum(one.predicted == option for one in self.each)


@dataclass(frozen=True, eq=False)
class QuickTests:
    """The trials that need no search; without keys to move weights between, only `own` is run."""

    own: Trial  # the row replaced by itself
    uniform: Trial | None = None
    permuted: Permutations | None = None


def quick_tests(row: AttentionRow, n: int = N_PERMUTATIONS, seed: int = 0) -> QuickTests:
    """Return the row itself, equal weights and n permutations, from one batch."""
    if not is_movable(row):
        return QuickTests(trials(row, row.weights[None])[0])
    itself, equal = row.weights[None], _uniform(row)[None]
    itself, uniform, *permuted = trials(
        row, torch.cat([itself, equal, _permutations(row, n, seed)])
    )
    return QuickTests(itself, uniform, Permutations(permuted))


def _uniform(row: AttentionRow) -> Float[Tensor, "key"]:
    return row.allowed.double() / row.allowed.sum().clamp(min=1)


def permuted_weights(row: AttentionRow, n: int = N_PERMUTATIONS, seed: int = 0) -> Permutations:
    """Permute the weights of the allowed keys, n times at random."""
    return Permutations(trials(row, _permutations(row, n, seed)))


def _permutations(row: AttentionRow, n: int, seed: int) -> Float[Tensor, "n key"]:
    rng, keys = torch.Generator().manual_seed(seed), row.allowed.nonzero()[:, 0]
    orders = [keys[torch.randperm(len(keys), generator=rng)] for _ in range(n)]
    return torch.stack([permute_weights(row, order) for order in orders])


def permute_weights(row: AttentionRow, order: Int[Tensor, "allowed"]) -> Float[Tensor, "key"]:
    """Return the row with the weight of `order[i]` on the i-th allowed key."""
    weights = row.weights.clone()
    weights[row.allowed.nonzero()[:, 0]] = row.weights[order]
    return weights


@dataclass(frozen=True, eq=False)
class Adversary:
    """The weights furthest from the model's own that an adversary has found."""

    trial: Trial
    n_steps: int  # of gradient ascent; fewer than asked for if time ran out
    corners: int  # keys that can take all the weight while the answer is kept
    n_tried: int  # keys tried in this way: all of `n_keys` unless time ran out
    n_keys: int  # keys that the mask allows


def adversary(
    row: AttentionRow,
    *,
    epsilon: float = EPSILON,
    n_starts: int = N_ASCENT_STARTS,
    n_steps: int = N_ASCENT_STEPS,
    seed: int = 0,
    max_seconds: float = MAX_SEARCH_SECONDS,
) -> Adversary:
    """Move a row as far as possible while the answer stays (Jain and Wallace 2019, §4.2.2).

    The Jensen-Shannon divergence from the model's own weights is raised while the answer's total
    variation stays within `epsilon` and its most probable option is the same. The divergence is
    convex in the row, so it is largest at a corner, with all weight on one key, if the answer
    allows that. The row first moves towards the corners of the MAX_CORNERS smallest weights, as far
    as the answer allows. Gradient ascent then continues from the best of these and from random
    rows. Ascent and the count of corners that keep the answer both stop after `max_seconds`. The
    result keeps the answer as an edit, rounding included.
    """
    started, search = time.monotonic(), _Search(row, epsilon)
    if not is_movable(row):
        return Adversary(trials(row, row.weights[None])[0], 0, 0, 0, 0)
    all_corners = search.corners()
    ends = search.as_far_as_allowed(all_corners[:MAX_CORNERS])
    corners, n_tried = int((ends[1] >= 1).sum()), len(ends[1])
    for first in range(MAX_CORNERS, len(all_corners), MAX_CORNERS):
        if time.monotonic() > started + max_seconds:
            break
        part = all_corners[first : first + MAX_CORNERS]
        corners += int(search.is_kept(row.answers(part)).sum())
        n_tried += len(part)
    best = search.best(ends[0], row.weights)
    if ends[1][0] < 1:  # otherwise the furthest corner is allowed
        rng, order = torch.Generator().manual_seed(seed), ends[2].argsort(descending=True)
        random_rows = torch.rand(n_starts, len(row.weights), generator=rng, dtype=torch.float64)
        starts = torch.cat([ends[0][order[: n_starts // 2]], random_rows[n_starts // 2 :]])
        rows, n_done = search.ascend(starts * row.allowed, n_steps, started + max_seconds)
        best = search.best(rows, best)
    else:
        n_done = 0
    return Adversary(search.exact(best), n_done, corners, n_tried, len(all_corners))


@dataclass(frozen=True, eq=False)
class _Search:
    """A search among the rows that keep the answer."""

    row: AttentionRow
    epsilon: float

    def corners(self) -> Float[Tensor, "n key"]:
        """Return the rows with all weight on one key, the keys of smallest weight first."""
        keys = self.row.allowed.nonzero()[:, 0]
        keys = keys[self.row.weights[keys].argsort()]
        return torch.nn.functional.one_hot(keys, len(self.row.weights)).double()

    def is_kept(self, logits: Float[Tensor, "n option"]) -> Tensor:
        """Return True for each answer that is the same within the bound."""
        before, after = self.row.logits.double().softmax(-1), logits.double().softmax(-1)
        same = after.argmax(-1) == int(before.argmax())
        return same & (total_variation(before, after) <= self.epsilon)

    def as_far_as_allowed(self, ends: Float[Tensor, "n key"]) -> tuple[Tensor, Tensor, Tensor]:
        """Go from the model's row towards each end while the answer is kept.

        Returns the rows reached, the shares of the way and the divergences there.
        """
        start = self.row.weights
        low = self.is_kept(self.row.answers(ends)).double()
        high = torch.ones(len(ends), dtype=torch.float64)
        for _ in range(BISECTIONS):
            share = torch.where(low >= 1, 1.0, (low + high) / 2)
            same_answer = self.is_kept(self.row.answers(start + share[:, None] * (ends - start)))
            low, high = torch.where(same_answer, share, low), torch.where(same_answer, high, share)
        rows = start + low[:, None] * (ends - start)
        return rows, low, js_divergence(start, rows)

    def best(self, rows: Float[Tensor, "n key"], other: Tensor) -> Float[Tensor, "key"]:
        """Return the row furthest from the model's own."""
        every = torch.cat([rows, other[None]])
        return every[int(js_divergence(self.row.weights, every).argmax())]

    def ascend(
        self, starts: Float[Tensor, "n key"], n_steps: int, end: float
    ) -> tuple[Float[Tensor, "n key"], int]:
        """Follow the gradient from each start; return the best row of each, and the steps made."""
        start, answer = self.row.weights, self.row.logits.double().softmax(-1)
        option = int(answer.argmax())
        blocked = ~self.row.allowed
        logits = (starts + 1e-6).log().masked_fill(blocked, -torch.inf)
        logits = logits.clamp(min=-12).masked_fill(blocked, -torch.inf).requires_grad_()
        best, furthest = start.expand(len(starts), -1).clone(), torch.zeros(len(starts))
        optimiser, done = torch.optim.Adam([logits], lr=RATE), 0
        while done < n_steps and time.monotonic() < end:
            done += 1
            rows = logits.softmax(-1)
            log_probs = self.row.answers(rows, gradients=True).double().log_softmax(-1)
            apart = js_divergence(start, rows)
            with torch.no_grad():
                better = self.is_kept(log_probs) & (apart > furthest)
                best[better], furthest = rows[better], torch.where(better, apart, furthest)
            others = log_probs.clone()
            others[:, option] = -torch.inf
            excess = (total_variation(answer, log_probs.exp()) - 0.9 * self.epsilon).relu()
            shortfall = (others.amax(-1) - log_probs[:, option]).relu()
            loss = (PENALTY * (excess + shortfall) - apart).sum()
            # with respect to the row alone: no gradient is stored on the model
            (slope,) = torch.autograd.grad(loss, logits)
            logits.grad = slope.nan_to_num(0.0)
            optimiser.step()
        return best.detach(), done

    def exact(self, weights: Float[Tensor, "key"]) -> Trial:
        """Return the trial of rounded weights, or of nearer ones if rounding breaks the bound."""
        weights_of_run = self.row.weights
        for share in (1.0, 0.999, 0.99, 0.95, 0.8, 0.5):
            near = round_weights(weights_of_run + share * (weights - weights_of_run))
            trial = trials(self.row, near[None])[0]
            if self.is_kept(trial.log_probs[None])[0]:
                return trial
        return trials(self.row, weights_of_run[None])[0]
