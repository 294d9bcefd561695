"""Declaration of a model's sublayers: where each is recorded, and how it joins the stream."""

import re
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

FEED_FORWARD = "feed-forward"


@dataclass(frozen=True)
class Sublayer:
    """One attention or feed-forward.

    `before`, `out`, `after` and `normed` name activations of a run.
    """

    path: str  # of its module, and of its attention site if it has one
    role: str  # one of models.layers.masks.ROLES, or FEED_FORWARD
    stream: str  # of its tokens
    before: str  # residual stream before it
    out: str  # its output
    after: str  # residual stream after it
    norm: str  # "post": LayerNorm(before + out). "pre": it reads LayerNorm(before). "none"
    layer_norm: nn.Module | None = None  # a LayerNorm or an RMSNorm
    normed: str = ""  # under "pre": its normalised input
    activation: str = ""  # of a feed-forward: one of models.layers.blocks.ACTIVATIONS
    adds: bool = True  # False: its output replaces the stream instead of being added to it
    states: str = ""  # "content" or "query" if tokens have two rows of states
    mark: str = ""  # prefix of what a feed-forward records of these states
    reads: str = ""  # input of its norm, if not `before`
    number: int | None = None  # layer number, if the path does not contain it
    side: str = ""  # its stack, if the path does not contain it
    gated: bool = False  # feed-forward: the activation is multiplied by a second product
    biased: bool = True  # feed-forward: W₁ has a bias

    @property
    def norm_name(self) -> str:
        """The type of its norm, "LayerNorm" or "RMSNorm"."""
        return norm_name(self.layer_norm)

    @property
    def row(self) -> str:
        """Identifier of the row of states that it works on."""
        return self.states or self.stream

    @property
    def stack(self) -> str:
        """The stack that it belongs to, "encoder" or "decoder"."""
        return self.side or self.path.partition(".")[0]

    @property
    def layer(self) -> int | None:
        """Layer number from 0; None for a sublayer after the numbered ones."""
        if self.number is not None:
            return self.number
        match = re.search(r"\.layers\.(\d+)\.", self.path)
        return int(match[1]) if match else None

    def normalised(self, x: Float[Tensor, "*places d_model"]) -> Float[Tensor, "*places d_model"]:
        """Return its norm of x by the formula, in float64.

        LayerNorm is (x − mean) / √(variance + ε) · gain + bias (Ba et al. 2016, eq. 4), RMSNorm
        x / √(mean of x² + ε) · gain (Zhang & Sennrich 2019, eq. 4).
        """
        norm, x = cast(Any, self.layer_norm), x.detach().double().cpu()
        eps = next((getattr(norm, name) for name in _EPS if hasattr(norm, name)), 0.0)
        if self.norm_name == "RMSNorm":
            return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * _gain(norm, eps)
        centred = x - x.mean(-1, keepdim=True)
        result = centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()
        for name, apply in (("weight", torch.mul), ("bias", torch.add)):
            if (parameter := getattr(norm, name, None)) is not None:
                result = apply(result, parameter.detach().double().cpu())
        return result


_EPS = ("eps", "variance_epsilon")  # what norms call their ε


@torch.no_grad()
def _gain(norm: Any, eps: float) -> Tensor:
    """Return what an RMSNorm multiplies each feature by, its weight or 1 + its weight."""
    if (weight := getattr(norm, "weight", None)) is None:
        return torch.ones((), dtype=torch.float64)
    ones = torch.ones_like(weight)
    return norm(ones).double().cpu() * (1 + eps) ** 0.5


@torch.no_grad()
def norm_name(norm: nn.Module | None) -> str:
    """Return "LayerNorm" (Ba et al. 2016) or "RMSNorm" (Zhang & Sennrich 2019).

    A LayerNorm gives the same for x and x + 1.
    """
    if norm is None or isinstance(norm, nn.LayerNorm):
        return "LayerNorm"
    if (weight := getattr(norm, "weight", None)) is None:
        return "RMSNorm"
    x = torch.linspace(-1, 1, weight.numel()).to(weight)
    return "LayerNorm" if torch.allclose(norm(x), norm(x + 1), atol=1e-2) else "RMSNorm"
