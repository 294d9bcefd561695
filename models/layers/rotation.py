"""Rotary positions (Su et al. 2021, §3.4): pairs of a query's or key's numbers are rotated."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Rotation:
    """cos and sin of the angle of every pair at positions 0, 1, …, as a model computes them.

    Pair i is numbers i and i + n_pairs of a head; numbers after the last pair are not rotated. If
    cos² + sin² is not 1, a pair is also stretched.
    """

    cos: Float[Tensor, "n n_pairs"]
    sin: Float[Tensor, "n n_pairs"]
    miss: float = 0.0  # largest error in a run of the model, relative to its largest number

    @property
    def n_pairs(self) -> int:
        return self.cos.shape[1]

    @property
    def angles(self) -> Float[Tensor, "n n_pairs"]:
        """Angles in radians, in float64, full turns included.

        No pair turns by half a turn or more from one position to the next.
        """
        cos, sin = self.cos.double(), self.sin.double()
        steps = torch.atan2(
            sin[1:] * cos[:-1] - cos[1:] * sin[:-1], cos[1:] * cos[:-1] + sin[1:] * sin[:-1]
        )
        return torch.cat([torch.atan2(sin[:1], cos[:1]), steps]).cumsum(0)

    @property
    def wavelengths(self) -> Float[Tensor, "n_pairs"]:
        """Positions per full turn of each pair, by its first step; infinite if it does not turn."""
        first, second = self.angles[:2]
        return 2 * torch.pi / (second - first).abs()

    @property
    def stretch(self) -> Float[Tensor, "n_pairs"]:
        """Factor by which each pair is lengthened."""
        return torch.hypot(self.cos[0], self.sin[0])

    def rotate(
        self, x: Float[Tensor, "*b n d_head"], positions: Int[Tensor, "n"]
    ) -> Float[Tensor, "*b n d_head"]:
        """Return queries or keys rotated at these positions."""
        return self._turn(x, self.cos[positions], self.sin[positions])

    def unrotate(
        self, x: Float[Tensor, "*b n d_head"], positions: Int[Tensor, "n"]
    ) -> Float[Tensor, "*b n d_head"]:
        """Return the queries or keys before the rotation at these positions."""
        cos, sin = self.cos[positions], self.sin[positions]
        length = cos**2 + sin**2
        return self._turn(x, cos / length, -sin / length)

    def _turn(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        a, b, rest = x.tensor_split([self.n_pairs, 2 * self.n_pairs], dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], dim=-1)
