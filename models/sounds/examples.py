"""Example sounds, made by code: the same samples on every machine."""

from collections.abc import Callable
from functools import cache

import numpy as np

from models.sounds.file import SoundFile
from models.sounds.waveform import Waveform

EXAMPLE_RATE = 16_000  # samples a second
EXAMPLE_SECONDS = 2.0
_AMPLITUDE, _FADE = 0.5, 0.02  # of tones; s
_SCALE = (262, 330, 392, 523)  # Hz: C, E, G, C


def _fade(samples: np.ndarray) -> np.ndarray:
    """Return a sound that begins and ends without a click."""
    n = int(_FADE * EXAMPLE_RATE)
    ramp = np.linspace(0, 1, n)
    samples[:n] *= ramp
    samples[-n:] *= ramp[::-1]
    return samples


def _tone(hertz: np.ndarray | float, seconds: float) -> np.ndarray:
    """Return a tone of this frequency, or of one for each sample, with one overtone."""
    n = int(seconds * EXAMPLE_RATE)
    phase = 2 * np.pi * np.cumsum(np.broadcast_to(hertz, n)) / EXAMPLE_RATE
    return _fade(_AMPLITUDE * (np.sin(phase) + 0.4 * np.sin(2 * phase)) / 1.4)


def _steps() -> np.ndarray:
    """Return four tones one after the other, with rests between."""
    rest = np.zeros(int(0.1 * EXAMPLE_RATE))
    return np.concatenate([part for hertz in _SCALE for part in (_tone(hertz, 0.4), rest)])


def _chirp() -> np.ndarray:
    """Return a tone that rises from 200 to 3,200 Hz, by equal intervals in equal times."""
    return _tone(
        200 * 16 ** np.linspace(0, 1, int(EXAMPLE_SECONDS * EXAMPLE_RATE)), EXAMPLE_SECONDS
    )


def _beats() -> np.ndarray:
    """Return noise in four bursts, drawn with seed 0."""
    rng = np.random.default_rng(0)
    samples, n = np.zeros(int(EXAMPLE_SECONDS * EXAMPLE_RATE)), int(0.12 * EXAMPLE_RATE)
    for start in (0.1, 0.5, 0.9, 1.5):
        at = int(start * EXAMPLE_RATE)
        samples[at : at + n] = _fade(0.3 * rng.standard_normal(n).clip(-3, 3))
    return samples


_SOUNDS: dict[str, Callable[[], np.ndarray]] = {
    "four tones": _steps,
    "rising tone": _chirp,
    "four bursts of noise": _beats,
}
SOUND_EXAMPLES = tuple(_SOUNDS)


@cache
def example_sound(name: str = SOUND_EXAMPLES[0]) -> SoundFile:
    """Return one of SOUND_EXAMPLES as a WAV file."""
    return SoundFile(name, Waveform(_SOUNDS[name]().astype(np.float32), EXAMPLE_RATE).as_wav())
