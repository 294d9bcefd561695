"""Declaration of a model's sublayers: where each is recorded, and how it joins the stream."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

FEED_FORWARD = "feed-forward"
MIXER = "mixer"  # mixes tokens without weights for pairs: linear attention, a state space


@dataclass(frozen=True)
class Sublayer:
    """One attention or feed-forward.

    `before`, `out`, `after` and `normed` name activations of a run.
    """

    path: str  # of its module, and of its attention site if it has one
    role: str  # one of models.layers.masks.ROLES, FEED_FORWARD or MIXER
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
    mark: str = ""  # prefix of what a feed-forward records for these states
    reads: str = ""  # input of its norm, if not `before`
    number: int | None = None  # layer number, if the path does not contain it
    side: str = ""  # its stack, if the path does not contain it
    gated: bool = False  # feed-forward: the activation is multiplied by a second product
    biased: bool = True  # feed-forward: W₁ has a bias
    out_norm: nn.Module | None = None  # a norm of its output, before it is added
    made: str = ""  # its output before `out_norm`, if it has one
    scale: float = 1.0  # factor of `out` where it is added

    @property
    def norm_name(self) -> str:
        """The type of its norm, "LayerNorm" or "RMSNorm"."""
        return norm_name(self.layer_norm or self.out_norm)

    @property
    def attends(self) -> bool:
        """True for an attention, which has weights."""
        return self.role not in (FEED_FORWARD, MIXER)

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
        """Return its norm of x by the formula, in float64."""
        return apply_norm(self.layer_norm or nn.Identity(), x)


_EPSILON_NAMES = ("eps", "variance_epsilon")  # attributes that hold ε


def apply_norm(
    norm: nn.Module, x: Float[Tensor, "*places d_model"]
) -> Float[Tensor, "*places d_model"]:
    """Return a norm of x by its formula, in float64.

    LayerNorm is (x − mean) / √(variance + ε) · gain + bias (Ba et al. 2016, eq. 4), RMSNorm
    x / √(mean of x² + ε) · gain (Zhang & Sennrich 2019, eq. 4).
    """
    x = x.detach().double().cpu()
    gain, bias, eps = gain_and_bias(norm, x.shape[-1])
    return standardise(norm, x, eps) * gain + bias


def standardise(
    norm: nn.Module, x: Float[Tensor, "*places d_model"], eps: float
) -> Float[Tensor, "*places d_model"]:
    """Return x as a norm computes it before multiplying by its gain."""
    if norm_name(norm) == "LayerNorm":
        x = x - x.mean(-1, keepdim=True)
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


@torch.no_grad()
def gain_and_bias(
    norm: nn.Module, d_model: int
) -> tuple[Float[Tensor, "d_model"], Float[Tensor, "d_model"], float]:
    """Return the gain, bias and ε of a norm, in float64.

    They are read from torch's LayerNorm and measured for any other norm, since some multiply by 1 +
    their weight and some have no weight: norm(−x) gives the bias, and a small x gives ε.
    """
    if type(norm) is nn.LayerNorm and norm.weight is not None:
        weight = norm.weight.double().cpu()
        bias = torch.zeros_like(weight) if norm.bias is None else norm.bias.double().cpu()
        return weight, bias, norm.eps
    x = torch.ones(d_model, dtype=torch.float64)
    x[1::2] = -1

    def measure(x: Tensor) -> tuple[Tensor, Tensor]:
        plus, minus = (_apply(norm, sign * x) for sign in (1, -1))
        return (plus - minus) / 2, (plus + minus) / 2

    eps = next((float(getattr(norm, name)) for name in _EPSILON_NAMES if hasattr(norm, name)), None)
    odd, bias = measure(x)
    eps = _eps(float(odd.norm()), float(measure(_SMALL * x)[0].norm())) if eps is None else eps
    return odd / standardise(norm, x, eps), bias, eps


_SMALL = 1e-3  # the size of a vector whose norm ε makes shorter


def _eps(length: float, length_of_small: float) -> float:
    """Return ε by the lengths of norm(x) and norm(a·x), where the mean of x² is 1.

    They are 1 / √(1 + ε) and a / √(a² + ε) times the same gain.
    """
    ratio = (length_of_small / length) ** 2
    return max(0.0, _SMALL**2 * (1 - ratio) / (ratio - _SMALL**2)) if ratio > _SMALL**2 else 0.0


def _apply(norm: nn.Module, x: Float[Tensor, "d_model"]) -> Float[Tensor, "d_model"]:
    weight = next(norm.parameters(), None)
    return norm(x.float() if weight is None else x.to(weight)).double().cpu()


def norm_name_of(sublayers: Sequence[Sublayer]) -> str:
    """Return the type of the first norm of several sublayers."""
    first = next((s for s in sublayers if s.layer_norm or s.out_norm), None)
    return norm_name(None) if first is None else first.norm_name


@torch.no_grad()
def norm_name(norm: nn.Module | None) -> str:
    """Return "LayerNorm" (Ba et al. 2016) or "RMSNorm" (Zhang & Sennrich 2019).

    A LayerNorm gives the same for x and x + 1.
    """
    if norm is None or isinstance(norm, nn.LayerNorm):
        return "LayerNorm"
    weight = getattr(norm, "weight", None)
    sizes = getattr(norm, "normalized_shape", None) or (8,)
    x = torch.linspace(-1, 1, sizes[-1] if weight is None else weight.numel())
    x = x if weight is None else x.to(weight)
    return "LayerNorm" if torch.allclose(norm(x), norm(x + 1), atol=1e-2) else "RMSNorm"
