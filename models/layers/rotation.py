"""Rotary positions (Su et al. 2021, §3.4): each pair of numbers of a query or key is turned by an angle that its position sets."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Rotation:
    """cos and sin of every pair's angle at positions 0, 1, …, as a model makes them. Pair i is numbers i and i + n_pairs of a head;
    what lies behind the last pair is not turned. Where cos² + sin² is not 1, a pair is stretched too."""

    cos: Float[Tensor, "n n_pairs"]
    sin: Float[Tensor, "n n_pairs"]
    miss: float = 0.0  # of a run of the model, as a share of its largest number

    @property
    def n_pairs(self) -> int:
        return self.cos.shape[1]

    @property
    def angles(self) -> Float[Tensor, "n n_pairs"]:
        """In radians, in float64, whole turns counted: no pair turns by half a turn or more from one position to the next."""
        cos, sin = self.cos.double(), self.sin.double()
        steps = torch.atan2(
            sin[1:] * cos[:-1] - cos[1:] * sin[:-1], cos[1:] * cos[:-1] + sin[1:] * sin[:-1]
        )
        return torch.cat([torch.atan2(sin[:1], cos[:1]), steps]).cumsum(0)

    @property
    def wavelengths(self) -> Float[Tensor, "n_pairs"]:
        """How many positions each pair takes for one full turn, by its first step; infinite for one that does not turn."""
        first, second = self.angles[:2]
        return 2 * torch.pi / (second - first).abs()

    @property
    def stretch(self) -> Float[Tensor, "n_pairs"]:
        """How much longer each pair is made."""
        return torch.hypot(self.cos[0], self.sin[0])

    def rotate(
        self, x: Float[Tensor, "*b n d_head"], positions: Int[Tensor, "n"]
    ) -> Float[Tensor, "*b n d_head"]:
        """Queries or keys as they are at these positions."""
        return self._turned(x, self.cos[positions], self.sin[positions])

    def unrotate(
        self, x: Float[Tensor, "*b n d_head"], positions: Int[Tensor, "n"]
    ) -> Float[Tensor, "*b n d_head"]:
        """What was turned to be these queries or keys at these positions."""
        cos, sin = self.cos[positions], self.sin[positions]
        length = cos**2 + sin**2
        return self._turned(x, cos / length, -sin / length)

    def _turned(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        a, b, rest = x.tensor_split([self.n_pairs, 2 * self.n_pairs], dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], dim=-1)
