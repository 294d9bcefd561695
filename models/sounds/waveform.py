"""A sound as numbers: one channel at a rate, resampled, and written as a WAV file."""

from __future__ import annotations

import io
import math
import wave
from dataclasses import dataclass

import numpy as np

FULL_SCALE = 32767  # of 16 bits


@dataclass(frozen=True, eq=False)
class Waveform:
    """Samples from −1 to 1, `rate` of them a second."""

    samples: np.ndarray  # float32
    rate: int

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate

    def at(self, rate: int) -> Waveform:
        """Return the sound at another rate, without the frequencies that it cannot hold."""
        if rate == self.rate:
            return self
        from scipy.signal import resample_poly

        shared = math.gcd(rate, self.rate)
        samples = resample_poly(
            self.samples.astype(np.float64), rate // shared, self.rate // shared
        )
        return Waveform(samples.astype(np.float32), rate)

    def as_wav(self) -> bytes:
        """Return a WAV file of 16 bits."""
        content = io.BytesIO()
        with wave.open(content, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(self.rate)
            file.writeframes(
                (self.samples.clip(-1, 1) * FULL_SCALE).round().astype("<i2").tobytes()
            )
        return content.getvalue()
