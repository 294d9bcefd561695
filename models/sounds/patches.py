"""The patches of a sound: a grid over its spectrogram, as in AST (Gong et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from models.images.patches import PatchGrid
from models.sounds.frames import FrameIds, SoundRow, frame_time, frame_times


@dataclass(frozen=True)
class SpectrogramGrid(PatchGrid):
    """Patches of a spectrogram: rows go from low bands to high, columns along time.

    A patch is `size` bands by columns of the spectrogram, each of `seconds`; the next patch begins
    a `stride` further. Patches overlap where a stride is smaller than the size.
    """

    size: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    seconds: float = 0.0

    @property
    def step(self) -> float:
        """Seconds from a column of patches to the next."""
        return self.stride[1] * self.seconds

    @property
    def extent(self) -> tuple[int, int]:
        """The bands and the columns of the spectrogram that any patch reads."""
        n_patches = self.rows, self.columns
        bands, columns = (
            (n - 1) * stride + size
            for n, stride, size in zip(n_patches, self.stride, self.size, strict=True)
        )
        return bands, columns

    @property
    def patches(self) -> tuple[str, ...]:
        """The names of all patches: "0.1 s b11" begins at 0.1 s and at band 11, the 11th lowest."""
        times = frame_times(self.columns, self.step)
        bands = [row * self.stride[0] + 1 for row in range(self.rows)]
        return tuple(f"{time} b{band}" for band in bands for time in times)

    def described(self, token: int) -> str:
        """Describe what a token reads: "0.10 to 0.26 s, bands 11 to 26"; "" for no patch."""
        if (place := self.patch(token)) is None:
            return ""
        low, begin = (at * stride for at, stride in zip(place, self.stride, strict=True))
        first, end = (frame_time(at, self.seconds) for at in (begin, begin + self.size[1]))
        return f"{first[:-2]} to {end}, bands {low + 1} to {low + self.size[0]}"


@dataclass(frozen=True)
class PatchedSound(SoundRow):
    """A sound as the patches of its spectrogram, and special tokens around them.

    The first `n_heard` columns of patches hold some of the sound, the others are padding; the whole
    sound lasts `seconds`. `step` is that of the columns. `spectrogram` is what the patches read.
    """

    grid: SpectrogramGrid = SpectrogramGrid(0, 0)

    @classmethod
    def on(
        cls,
        grid: SpectrogramGrid,
        text: str,
        features: Float[Tensor, "*shape"],
        spectrogram: Float[Tensor, "band time"],
        digest: str,
        n_heard: int,
        seconds: float,
    ) -> PatchedSound:
        """Return the row of a sound on this grid."""
        tokens = grid.tokens
        return cls(
            text, FrameIds(len(tokens), features, digest), tokens, (None,) * len(tokens),
            step=grid.step, n_heard=n_heard, seconds=seconds, digest=digest,
            spectrogram=spectrogram, grid=grid,
        )  # fmt: skip
