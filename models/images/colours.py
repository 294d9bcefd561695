"""Colours that the numbers read by a model stand for, measured with images of a single colour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

PRIMARIES = {"red": (1.0, 0.0, 0.0), "lime": (0.0, 1.0, 0.0), "blue": (0.0, 0.0, 1.0)}
GREYS = {"black": (0.0,) * 3, "white": (1.0,) * 3, "gray": (128 / 255,) * 3}
_NEAR = 0.02
# colour → the numbers that an image of it becomes
ColourNumbers = Callable[[str], Float[Tensor, " channel"]]


@dataclass(frozen=True)
class ColourScale:
    """The numbers of black and of white in each channel, and the channel of each primary colour."""

    black: Float[Tensor, "channel 1 1"]
    white: Float[Tensor, "channel 1 1"]
    order: list[int]

    @classmethod
    def of(cls, numbers: ColourNumbers) -> ColourScale:
        """Return the scale measured with images of black, of white and of each primary colour."""
        black, white, *primaries = (numbers(colour) for colour in ("black", "white", *PRIMARIES))
        is_flat = white == black
        white = torch.where(is_flat, black + 1, white)
        order = [int(((value - black) / (white - black)).argmax()) for value in primaries]
        return cls(black[:, None, None], white[:, None, None], order)

    def holds(self, numbers: ColourNumbers) -> bool:
        """Return True if the scale gives back single colours; with one channel, the greys.

        It does not, for example, if an image is divided by its own brightness.
        """
        colours = GREYS if len(self.black) == 1 else GREYS | PRIMARIES
        shown = torch.stack([self.seen(numbers(name)[:, None, None])[0, 0] for name in colours])
        return bool((shown - torch.tensor(list(colours.values()))).abs().max() < _NEAR)

    def seen(
        self, pixels: Float[Tensor, "channel height width"]
    ) -> Float[Tensor, "height width 3"]:
        """Return the image that these pixels show, with values from 0 to 1."""
        shares = (pixels - self.black) / (self.white - self.black)
        return shares[self.order].clamp(0, 1).permute(1, 2, 0).contiguous()
