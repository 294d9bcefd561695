"""Where a token stands: sinusoidal (Vaswani et al. 2017, §3.5), learned, or none."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


def sinusoidal(n_ctx: int, d_model: int) -> Float[Tensor, "n_ctx d_model"]:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same angle."""
    position = torch.arange(n_ctx, dtype=torch.float64)[:, None]
    even = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle = position / 10000 ** (even / d_model)
    table = torch.zeros(n_ctx, d_model, dtype=torch.float64)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle.cos()[:, : d_model // 2]
    return table.float()


class Positions(nn.Module):
    """A table of `n_ctx` position vectors. kind: "sinusoidal" | "learned" | "none"."""

    def __init__(self, kind: str, n_ctx: int, d_model: int) -> None:
        super().__init__()
        if kind not in ("sinusoidal", "learned", "none"):
            raise ValueError(f"positions must be sinusoidal, learned or none, not {kind!r}")
        self.kind = kind
        if kind == "learned":
            self.table = nn.Parameter(torch.randn(n_ctx, d_model) * d_model**-0.5)
        else:
            start = sinusoidal(n_ctx, d_model) if kind == "sinusoidal" else torch.zeros(n_ctx, d_model)
            self.register_buffer("table", start, persistent=False)

    def forward(self, n: int, start: int = 0) -> Float[Tensor, "n d_model"]:
        """The vectors of positions start … start+n−1."""
        return self.table[start : start + n]
