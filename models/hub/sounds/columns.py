"""The columns of a spectrogram, measured with the feature extractor that makes it.

A column holds a sound of n samples if noise of this length changes it, compared with silence.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from jaxtyping import Float
from torch import Tensor

from models.errors import CheckpointError
from models.hub.sounds.processor import SoundProcessor
from models.hub.sounds.rows import NO_COLUMNS, NO_SIZE, TRIED_LENGTHS
from models.hub.sounds.steps import equal_steps
from models.sounds import Waveform
from models.sounds.file import MAX_SOUND_SECONDS

MAX_CELLS = 2_000_000  # of a spectrogram, which is made many times over to measure it


@dataclass(frozen=True)
class SpectrogramColumns:
    """`n` columns along an axis of the features, a `step` of samples apart.

    The first holds a sound of `first` samples or more.
    """

    axis: int
    n: int
    step: int
    first: int

    def held(self, n_samples: int) -> int:
        """Return the number of columns that hold some of a sound."""
        return min(self.n, max(0, (n_samples - self.first) // self.step + 1))

    def by_bands(self, features: Float[Tensor, "*n a b"]) -> Float[Tensor, "*n c d"]:
        """Put the bands first if they are last; a second call undoes this."""
        return features if self.axis else features.transpose(-1, -2)

    def samples(self, n: int) -> int:
        """Return the length of the shortest sound that n columns hold some of."""
        return self.first + (n - 1) * self.step


def spectrogram_columns(processor: SoundProcessor, shape: tuple[int, ...]) -> SpectrogramColumns:
    """Return the columns of the features that an extractor makes, expected in this shape.

    Raises:
        CheckpointError: they differ in size, or their columns in length, or are too large.
    """
    if prod(shape) > MAX_CELLS:
        raise CheckpointError(
            f"its spectrogram has {prod(shape):,} cells; at most {MAX_CELLS:,} are read"
        )
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, round(MAX_SOUND_SECONDS * processor.rate))
    sounds = _Sounds(processor, noise.astype(np.float32), shape)
    short, longer = (round(seconds * processor.rate) for seconds in TRIED_LENGTHS)
    growing = [axis for axis in (0, 1) if sounds.held(short, axis) < sounds.held(longer, axis)]
    if len(growing) != 1:
        raise CheckpointError(NO_COLUMNS)
    axis = growing[0]
    steps = equal_steps(lambda length: sounds.held(length, axis), short, longer, NO_COLUMNS)
    columns = SpectrogramColumns(axis, shape[axis], steps.step, steps.first)
    full = min(columns.samples(columns.n), len(noise))
    if any(sounds.held(n, axis) != columns.held(n) for n in (full, full - 1)):
        raise CheckpointError(NO_COLUMNS)
    return columns


@dataclass(frozen=True)
class _Sounds:
    """Noise and silence of any length, as a feature extractor turns them into numbers."""

    processor: SoundProcessor
    noise: np.ndarray
    shape: tuple[int, ...]

    def held(self, n_samples: int, axis: int) -> int:
        """Return how far along an axis noise of this length differs from silence."""
        noise = self.noise[:n_samples]
        rate = self.processor.rate
        try:
            loud, silent = (
                self.processor.features(Waveform(samples, rate))
                for samples in (noise, np.zeros_like(noise))
            )
        except CheckpointError:  # the sound is too short for it
            return 0
        if loud.shape != self.shape or silent.shape != self.shape:
            raise CheckpointError(NO_SIZE)
        differ = (loud != silent).any(1 - axis).nonzero()
        return int(differ[-1]) + 1 if len(differ) else 0
