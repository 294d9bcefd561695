"""Four layers that carry information between tokens: RNN, bidirectional RNN, CNN, self-attention.

Each knows what it computes, what it reaches in how many steps, and in which order (Vaswani et al.
2017, Table 1 and §4). It maps x (n, d_in) to y (n, d_out) for one sequence without padding.
`jacobian_norms.py` differentiates them; the RNNs are spelled out gate by gate for that, and tests
compare them with torch's own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from models.architectures.encoder_decoder import ENCODER_SELF
from models.layers.attention import MultiHeadAttention
from models.layers.masks import Mask

FORWARD, BACKWARD = "forward", "backward"
_NAMES = {FORWARD: "", BACKWARD: "_reverse"}  # suffixes of torch's parameter names


Units = Float[Tensor, "*batch d_hidden"]
Gates = Float[Tensor, "*batch gates_hidden"]  # 3·d_hidden


def elman(wx: Units, uh: Units, h: Units) -> Units:
    """h_t = tanh(W x_t + U h_{t−1} + b) (Elman 1990), from W x_t + b_W and U h_{t−1} + b_U."""
    return (wx + uh).tanh()


def gru(wx: Gates, uh: Gates, h: Units) -> Units:
    """h_t = (1 − z)∘n + z∘h_{t−1} (Cho et al. 2014, as in torch).

    From W x_t + b_W and U h_{t−1} + b_U of r, z and n.
    """
    (wx_r, wx_z, wx_n), (uh_r, uh_z, uh_n) = wx.chunk(3, dim=-1), uh.chunk(3, dim=-1)
    r, z = (wx_r + uh_r).sigmoid(), (wx_z + uh_z).sigmoid()
    n = (wx_n + r * uh_n).tanh()
    return (1 - z) * n + z * h


@dataclass(frozen=True)
class Direction:
    """One direction of a recurrence.

    W and U stack the gates as torch does; `step` is `elman` or `gru`, which act on each unit alone.
    """

    step: Callable[[Tensor, Tensor, Tensor], Tensor]
    W: Float[Tensor, "gates_hidden d_in"]
    U: Float[Tensor, "gates_hidden d_hidden"]
    b_W: Float[Tensor, "gates_hidden"]
    b_U: Float[Tensor, "gates_hidden"]

    @property
    def d_hidden(self) -> int:
        return self.U.shape[1]

    def states(self, x: Float[Tensor, "n d_in"]) -> Float[Tensor, "n d_hidden"]:
        """Return h_1 … h_n from h_0 = 0, in the order of x."""
        h, states = x.new_zeros(self.d_hidden), []
        for wx in F.linear(x, self.W, self.b_W):
            h = self.step(wx, F.linear(h, self.U, self.b_U), h)
            states.append(h)
        return torch.stack(states)


@dataclass(frozen=True)
class Recurrent:
    """An RNN in one direction, or in both with [forward; backward] as output."""

    directions: dict[str, Direction]

    @classmethod
    def of(cls, module: nn.RNN | nn.GRU, *names: str) -> "Recurrent":
        """Copy these directions of torch's module to the CPU.

        Raises:
            ValueError: The module does not have such a direction.
        """
        if BACKWARD in names and not module.bidirectional:
            raise ValueError("this recurrence reads forward only")
        step = gru if isinstance(module, nn.GRU) else elman
        weights = {
            name: p.detach().to("cpu", torch.float32) for name, p in module.named_parameters()
        }
        parts = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        return cls(
            {
                name: Direction(step, *(weights[part + _NAMES[name]] for part in parts))
                for name in names
            }
        )

    def __call__(self, x: Float[Tensor, "n d_in"]) -> Float[Tensor, "n d_out"]:
        states = {FORWARD: lambda d: d.states(x), BACKWARD: lambda d: d.states(x.flip(0)).flip(0)}
        return torch.cat(
            [states[name](direction) for name, direction in self.directions.items()], dim=-1
        )

    def steps(self, n: int) -> Int[Tensor, "n n"]:
        """Return the steps from x_j to y_i: one cell reads x_j, then one per token. 0 = no path."""
        chain = torch.ones(n, n, dtype=torch.bool).tril(-1).triu(-1)  # h_t reads h_{t−1}
        ways = {FORWARD: chain, BACKWARD: chain.T}
        return 1 + torch.stack([hops(ways[name]) for name in self.directions]).amax(0)

    def reaches(self, n: int) -> Bool[Tensor, "n n"]:
        return self.steps(n) > 0

    def schedule(self, n: int) -> list[list[int]]:
        """Return the positions of each sequential step; both directions run in parallel."""
        order = {FORWARD: range(n), BACKWARD: reversed(range(n))}
        return [
            sorted(set(step))
            for step in zip(*(order[name] for name in self.directions), strict=True)
        ]


@dataclass(frozen=True)
class Convolutional:
    """`depth` zero-padded convolutions of odd `width` over the positions, each with tanh."""

    kernels: tuple[Tensor, ...]  # each (d_out, d_in, width)
    biases: tuple[Tensor, ...]

    @classmethod
    def random(cls, d_in: int, d_out: int, width: int, depth: int, seed: int) -> "Convolutional":
        """Initialise as torch does nn.Conv1d.

        Raises:
            ValueError: The width is even, or there is no layer.
        """
        if width < 1 or width % 2 == 0 or depth < 1:
            raise ValueError(
                f"a convolution needs an odd width and a depth of at least 1, not {width} and {depth}"
            )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layers = [nn.Conv1d(a, b, width) for a, b in pairwise([d_in] + [d_out] * depth)]
        return cls(
            tuple(layer.weight.detach() for layer in layers),
            tuple(cast(Tensor, layer.bias).detach() for layer in layers),
        )

    @property
    def width(self) -> int:
        return self.kernels[0].shape[2]

    @property
    def depth(self) -> int:
        return len(self.kernels)

    @property
    def field(self) -> int:
        """Receptive field: depth·(width − 1) + 1 tokens."""
        return self.depth * (self.width - 1) + 1

    def __call__(self, x: Float[Tensor, "n d_in"]) -> Float[Tensor, "n d_out"]:
        y = x.T[None]
        for kernel, bias in zip(self.kernels, self.biases, strict=True):
            y = F.conv1d(y, kernel, bias, padding=self.width // 2).tanh()
        return y[0].T

    def steps(self, n: int) -> Int[Tensor, "n n"]:
        """Return the number of stacked layers needed; this stack has `depth`. 0 = out of reach."""
        apart = (torch.arange(n)[:, None] - torch.arange(n)).abs()
        needed = hops(apart <= self.width // 2)
        return torch.where(needed < 0, 0, needed.clamp(min=1))

    def reaches(self, n: int) -> Bool[Tensor, "n n"]:
        needed = self.steps(n)
        return (needed > 0) & (needed <= self.depth)

    def schedule(self, n: int) -> list[list[int]]:
        """Return all positions for each layer: each computes them at once."""
        return [list(range(n)) for _ in range(self.depth)]


@dataclass(frozen=True)
class SelfAttention:
    """Multi-head self-attention with W_O, without mask, residual and LayerNorm."""

    module: MultiHeadAttention

    @classmethod
    def random(cls, d_model: int, seed: int) -> "SelfAttention":
        """Initialise as our Transformer does, with up to 8 heads.

        Their number is the largest of 8, 4, 2, 1 that divides d_model.
        """
        heads = next(h for h in (8, 4, 2, 1) if d_model % h == 0)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return cls(MultiHeadAttention(d_model, heads, ENCODER_SELF).eval())

    def __call__(self, x: Float[Tensor, "n d_in"]) -> Float[Tensor, "n d_out"]:
        return self.module(x[None], x[None], Mask())[0]

    def steps(self, n: int) -> Int[Tensor, "n n"]:
        """Return 1 for every pair."""
        return hops(torch.ones(n, n, dtype=torch.bool)).clamp(min=1)

    def reaches(self, n: int) -> Bool[Tensor, "n n"]:
        return self.steps(n) > 0

    def schedule(self, n: int) -> list[list[int]]:
        """Return all positions as a single step."""
        return [list(range(n))]


Layer = Recurrent | Convolutional | SelfAttention


def hops(reads: Bool[Tensor, "n n"]) -> Int[Tensor, "n n"]:
    """Return the least number of edges from j to i, where `reads[i, j]` is an edge from j to i.

    0 from i to i; −1 without a path.
    """
    n = len(reads)
    reached, result = torch.eye(n, dtype=torch.bool), torch.full((n, n), -1)
    for step in range(n):
        new = reached & (result < 0)
        if not new.any():
            break
        result[new] = step
        reached = (reads.float() @ reached.float()) > 0
    return result
