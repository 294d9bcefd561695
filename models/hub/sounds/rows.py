"""The rows of a spectrogram that is as long as its sound, measured with its extractor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from models.errors import CheckpointError
from models.hub.sounds.steps import EqualSteps, equal_steps

NO_COLUMNS = "the columns of its spectrogram are not equal steps through the sound"
NO_SIZE = "it reads a spectrogram, but not of one size for all sounds"
TRIED_LENGTHS = 0.25, 0.5  # s, of sounds that fill different numbers of columns
_QUIET, _CLICK = 0.01, 0.9  # of the samples around a click, and of the click

Extract = Callable[[np.ndarray], Float[Tensor, "row number"]]


@dataclass(frozen=True)
class SpectrogramRows:
    """Rows of `per_row` columns of `n_bands` numbers each; `steps` are those of rows in samples."""

    steps: EqualSteps
    n_bands: int
    per_row: int

    @property
    def step(self) -> float:
        """Samples from one column to the next."""
        return self.steps.step / self.per_row

    def columns(self, features: Float[Tensor, "row number"]) -> Float[Tensor, "time band"]:
        """Return the columns one by one."""
        return features.reshape(-1, self.n_bands)

    def picture(
        self, features: Float[Tensor, "row number"], n_samples: float
    ) -> Float[Tensor, "band time"]:
        """Return the columns of this many samples, silent where there are fewer."""
        bands, n = self.columns(features).T, round(n_samples / self.step)
        silence = max(0, n - bands.shape[1])
        return F.pad(bands, (0, silence), value=float(bands.min()))[:, :n]


def spectrogram_rows(
    extract: Extract, unpadded: Extract, rate: int, n_bands: int
) -> SpectrogramRows | None:
    """Return the rows that an extractor makes of a sound; None if any sound has as many.

    `unpadded` leaves out those that are padding.

    Raises:
        CheckpointError: they are not equal steps through the sound.
    """
    short, longer = (round(seconds * rate) for seconds in TRIED_LENGTHS)
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, longer).astype(np.float32)
    shapes = [extract(noise[:n]).shape for n in (short, longer)]
    if shapes[0] == shapes[1]:
        return None
    width = shapes[0][1]
    if shapes[1][1] != width:
        raise CheckpointError(NO_SIZE)

    steps = equal_steps(lambda n: len(unpadded(noise[:n])), short, longer, NO_COLUMNS)
    per_row, rest = divmod(width, n_bands)
    if rest or not per_row or steps.step % per_row:
        raise CheckpointError(NO_COLUMNS)
    rows = SpectrogramRows(steps, n_bands, per_row)
    _check_columns(rows, lambda samples: rows.columns(unpadded(samples)), noise * 2 * _QUIET)
    return rows


def _check_columns(rows: SpectrogramRows, columns: Extract, noise: np.ndarray) -> None:
    """Raise CheckpointError unless a click changes the column of its time."""
    step, plain = rows.steps.step // rows.per_row, columns(noise)
    begin, moved = len(noise) // 2 // step * step, []
    for click in range(begin, begin + (2 * rows.per_row + 1) * step, step):
        clicked = noise.copy()
        clicked[click] += _CLICK
        moved.append(int((columns(clicked) - plain).abs().sum(-1).argmax()))
    window = EqualSteps(step, rows.steps.first - (rows.per_row - 1) * step)
    one_by_one = list(range(moved[0], moved[0] + len(moved)))
    if moved != one_by_one or abs(window.middle(moved[0]) - begin) > 2 * step:
        raise CheckpointError(NO_COLUMNS)
