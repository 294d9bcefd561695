"""What a training run is told: its recipe, the schedules it gives, and what it tells of each step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Recipe:
    """Everything about a run but its data, its sizes and its device."""

    steps: int
    warmup: int = 1000  # steps of rising learning rate; 4000 in the paper
    learning_rate: float = 1.0  # factor on the paper's schedule
    label_smoothing: float = 0.1  # ε_ls, §5.4
    clip: float = 1.0  # largest gradient norm
    average_last: float = 0.2  # share of the run, at its end, whose weights are averaged (§6.1 averages the last ones)
    seed: int = 1
    new_only: bool = False  # train only what the checkpoint that a run goes on from does not hold
    validate_every: int = 500  # steps
    save_every: int = 200  # steps between resumable states
    score_cases: int = 200  # validation cases decoded for the score; 0 for none
    patience: int = (
        0  # validations without a smaller loss that end the run, its best weights kept; 0 for never
    )
    snapshots: bool = False  # keep the weights at log-spaced steps
    n_snapshots: int = 12  # how many of them at most
    snapshot_ratio: int = 2  # of one such step to the one before

    def __post_init__(self) -> None:
        if self.patience < 0:
            raise ValueError(f"patience must be at least 0, not {self.patience}")
        for name in ("steps", "warmup", "validate_every", "save_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("n_snapshots", "snapshot_ratio"):
            if getattr(self, name) < 2:
                raise ValueError(f"{name} must be at least 2, not {getattr(self, name)}")


@dataclass(frozen=True)
class StepRecord:
    """One step: mean training loss (nats a token, smoothing included), and validation results when it was time, with
    what they give reason to warn of."""

    step: int
    loss: float
    learning_rate: float
    tokens: int  # target tokens in the batch
    tokens_per_second: float
    validation: dict[str, float] = field(
        default_factory=dict
    )  # loss (nats a token, no smoothing), flatness, the metric
    warnings: Sequence[str] = ()


def scheduled_rate(step: int, d_model: int, warmup: int) -> float:
    """d_model^−0.5 · min(step^−0.5, step · warmup^−1.5) (Vaswani et al. 2017, eq. 3); steps count from 1."""
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def snapshot_steps(recipe: Recipe) -> list[int]:
    """Log-spaced steps from 0 to the last: by default 0, then steps·2^−10 … steps/2, steps."""
    return sorted(
        {0}
        | {
            math.ceil(recipe.steps / recipe.snapshot_ratio**k)
            for k in range(recipe.n_snapshots - 1)
        }
    )
