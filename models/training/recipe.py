"""Settings of a training run: its recipe, the schedules from it, and the record of each step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count

MIN_RATIO = 1.01  # of snapshot_ratio


@dataclass(frozen=True)
class Recipe:
    """All settings of a run except its data, its sizes and its device."""

    steps: int
    warmup: int = 1000  # steps of rising learning rate; 4000 in the paper
    learning_rate: float = 1.0  # factor on the paper's schedule
    label_smoothing: float = 0.1  # ε_ls, §5.4
    clip: float = 1.0  # largest gradient norm
    average_last: float = 0.2  # final share of the run whose weights are averaged (§6.1)
    seed: int = 1
    new_only: bool = False  # train only what the starting checkpoint does not have
    validate_every: int = 500  # steps
    save_every: int = 200  # steps between resumable states
    score_cases: int = 200  # validation cases decoded for the score; 0 for none
    # validations without a smaller loss until the run ends with its best weights; 0: never
    patience: int = 0
    snapshots: bool = False  # keep the weights at log-spaced steps
    n_snapshots: int = 12  # at most
    snapshot_ratio: float = 2  # between one such step and the one before

    def __post_init__(self) -> None:
        if self.patience < 0:
            raise ValueError(f"patience must be at least 0, not {self.patience}")
        for name in ("steps", "warmup", "validate_every", "save_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("learning_rate", "clip"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(
                f"label_smoothing must be at least 0 and below 1, not {self.label_smoothing}"
            )
        if not 0 <= self.average_last <= 1:
            raise ValueError(f"average_last must be from 0 to 1, not {self.average_last}")
        if not -(2**63) <= self.seed < 2**63:
            raise ValueError(f"seed must be from {-(2**63)} to {2**63 - 1}, not {self.seed}")
        if self.n_snapshots < 2:
            raise ValueError(f"n_snapshots must be at least 2, not {self.n_snapshots}")
        if not self.snapshot_ratio >= MIN_RATIO:
            raise ValueError(
                f"snapshot_ratio must be at least {MIN_RATIO}, not {self.snapshot_ratio}"
            )


@dataclass(frozen=True)
class StepRecord:
    """A step: mean training loss (nats per label, smoothing included), and its validation."""

    step: int
    loss: float
    learning_rate: float
    labels: int  # of the batch, over all its losses: a token, a class or an end of an answer each
    labels_per_second: float
    # loss (nats per label, no smoothing), flatness, the metric; measures of a snapshot at this step
    validation: dict[str, float] = field(default_factory=dict)
    warnings: Sequence[str] = ()  # from the validation


def scheduled_rate(step: int, d_model: int, warmup: int) -> float:
    """d_model^−0.5 · min(step^−0.5, step · warmup^−1.5), with steps from 1.

    Vaswani et al. 2017, eq. 3.
    """
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def snapshot_steps(recipe: Recipe) -> list[int]:
    """Return log-spaced steps from 0 to the last: by default 0, steps·2^−10, …, steps/2, steps."""
    n_powers = min(recipe.n_snapshots - 1, _powers_to_one(recipe.steps, recipe.snapshot_ratio))
    return sorted(
        {0} | {math.ceil(recipe.steps / recipe.snapshot_ratio**k) for k in range(n_powers)}
    )


def _powers_to_one(steps: int, ratio: float) -> int:
    """Return how many powers of the ratio, from 0, lead from the last step down to the first."""
    return 1 + math.ceil(math.log(steps) / math.log(ratio))


def densely_kept(recipe: Recipe, max_kept: int) -> Recipe:
    """Return the recipe with its snapshots as close together as `max_kept` (at least 2) allow."""

    def spaced(ratio: float) -> Recipe:
        n = 1 + (_powers_to_one(recipe.steps, ratio) if ratio < recipe.steps else 1)
        return replace(recipe, snapshots=True, snapshot_ratio=ratio, n_snapshots=n)

    ratios = (spaced(round(MIN_RATIO * 1.005**k, 3)) for k in count())
    return next(one for one in ratios if len(snapshot_steps(one)) <= max_kept)
