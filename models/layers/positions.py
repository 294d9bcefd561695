"""Where a token stands: sinusoidal (Vaswani et al. 2017, §3.5), learned, or none; and two misprints of the formula."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

# the paper's; printed with 2ⁱ where 2i should stand; printed with sin twice, the second time with 2i+1
FORMULAS = ("paper", "2^i", "sin-sin")


def exponents(formula: str, d_model: int) -> Float[Tensor, "d_model"]:
    """e of each dimension j in PE(pos, j) = sin or cos of pos / 10000^e, in float64; i = j // 2 counts pairs.

    "paper": 2i/d_model. "2^i": 2^i/d_model. "sin-sin": 2i/d_model for even j, (2i+1)/d_model for odd j.
    Raises ValueError for another name."""
    j = torch.arange(d_model, dtype=torch.float64)
    pair = (j / 2).floor()
    if formula == "paper":
        return 2 * pair / d_model
    if formula == "2^i":
        return 2**pair / d_model
    if formula == "sin-sin":
        return j / d_model
    raise ValueError(f"the formula must be one of {', '.join(FORMULAS)}, not {formula!r}")


def wavelengths(formula: str, d_model: int) -> Float[Tensor, "d_model"]:
    """How many positions each dimension takes for one full turn: 2π·10000^e; infinite where that overflows."""
    return 2 * torch.pi * 10000 ** exponents(formula, d_model)


def formula_table(formula: str, n_ctx: int, d_model: int) -> Float[Tensor, "n_ctx d_model"]:
    """PE(pos, j) by one of FORMULAS, in float64: sin in even dimensions, cos in odd ones ("sin-sin": sin in all)."""
    position = torch.arange(n_ctx, dtype=torch.float64)[:, None]
    angle = position / 10000 ** exponents(formula, d_model)  # (n_ctx, d_model)
    table = angle.sin()
    if formula != "sin-sin":
        table[:, 1::2] = angle[:, 1::2].cos()
    return table


def sinusoidal(n_ctx: int, d_model: int) -> Float[Tensor, "n_ctx d_model"]:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same angle."""
    return formula_table("paper", n_ctx, d_model).float()


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
            start = (
                sinusoidal(n_ctx, d_model) if kind == "sinusoidal" else torch.zeros(n_ctx, d_model)
            )
            self.register_buffer("table", start, persistent=False)

    def forward(self, n: int, start: int = 0) -> Float[Tensor, "n d_model"]:
        """The vectors of positions start … start+n−1."""
        return self.table[start : start + n]
