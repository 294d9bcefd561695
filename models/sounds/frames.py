"""A sound as a stream: the row of frames a model reads."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from models.tokenizers.encoding import Encoding


class FrameIds(tuple[int, ...]):
    """The ids of a sound's frames, with the numbers that a model is called with.

    A frame's id is its position. Two are equal if their numbers are.
    """

    features: Float[Tensor, "*shape"]
    digest: str

    def __new__(cls, n: int, features: Float[Tensor, "*shape"], digest: str) -> FrameIds:
        """Return the ids of n frames."""
        ids = super().__new__(cls, range(n))
        ids.features, ids.digest = features, digest
        return ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrameIds) and (len(self), self.digest) == (
            len(other),
            other.digest,
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((len(self), self.digest))


def frame_time(i: int, step: float) -> str:
    """Return the name of frame i of those that begin `step` s apart: "0.42 s", where it begins."""
    digits = next((d for d in range(1, 6) if abs(round(step, d) - step) < 1e-9), 6)
    return f"{i * step:.{digits}f} s"


def frame_times(n: int, step: float) -> tuple[str, ...]:
    """Return the names of the first n frames that begin `step` s apart."""
    return tuple(frame_time(i, step) for i in range(n))


@dataclass(frozen=True)
class SoundRow(Encoding):
    """A sound as frames, with the numbers that the model is called with (`ids.features`).

    `text` is the SoundFile. The frames have no offsets in a text. Frame i begins at i · `step` s;
    the first `n_heard` hold the sound, and silence follows. `spectrogram` is drawn over all frames,
    from low frequencies to high, with values from 0 to 1.
    """

    step: float = 0.0
    n_heard: int = 0
    seconds: float = 0.0
    digest: str = ""
    spectrogram: Float[Tensor, "band time"] = field(
        default_factory=lambda: torch.empty(0, 0), compare=False
    )

    @classmethod
    def of(
        cls,
        text: str,
        n: int,
        features: Float[Tensor, "*shape"],
        spectrogram: Float[Tensor, "band time"],
        digest: str,
        step: float,
        seconds: float,
    ) -> SoundRow:
        """Return the row of a sound of n frames."""
        n_heard = max(1, min(n, math.ceil(seconds / step - 1e-9)))
        return cls(
            text, FrameIds(n, features, digest), frame_times(n, step), (None,) * n,
            step=step, n_heard=n_heard, seconds=seconds, digest=digest, spectrogram=spectrogram,
        )  # fmt: skip
