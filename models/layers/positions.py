"""Position vectors: sinusoidal (Vaswani et al. 2017, §3.5), learned, or none; and two misprints."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

# the paper's; a misprint with 2ⁱ for 2i; a misprint with sin twice, the second time with 2i+1
FORMULAS = ("paper", "2^i", "sin-sin")


def exponents(formula: str, d_model: int) -> Float[Tensor, "d_model"]:
    """Return e of each dimension j in PE(pos, j) = sin or cos of pos / 10000^e, in float64.

    With i = j // 2: "paper" is 2i/d_model; "2^i" is 2^i/d_model; "sin-sin" is 2i/d_model for even j
    and (2i+1)/d_model for odd j.

    Raises:
        ValueError: the formula is not one of FORMULAS.
    """
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
    """Return the number of positions per full turn of each dimension: 2π·10000^e, or infinity."""
    return 2 * torch.pi * 10000 ** exponents(formula, d_model)


def formula_table(formula: str, n_ctx: int, d_model: int) -> Float[Tensor, "n_ctx d_model"]:
    """Return PE(pos, j) by one of FORMULAS, in float64.

    Even dimensions are sines, odd ones cosines; all are sines in "sin-sin".
    """
    position = torch.arange(n_ctx, dtype=torch.float64)[:, None]
    angle = position / 10000 ** exponents(formula, d_model)  # (n_ctx, d_model)
    table = angle.sin()
    if formula != "sin-sin":
        table[:, 1::2] = angle[:, 1::2].cos()
    return table


def sinusoidal(n_ctx: int, d_model: int) -> Float[Tensor, "n_ctx d_model"]:
    """Return PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same angle."""
    return formula_table("paper", n_ctx, d_model).float()


class Positions(nn.Module):
    """A table of `n_ctx` position vectors. `kind` is "sinusoidal", "learned" or "none"."""

    table: Tensor  # (n_ctx, d_model)

    def __init__(self, kind: str, n_ctx: int, d_model: int) -> None:
        super().__init__()
        if kind not in ("sinusoidal", "learned", "none"):
            raise ValueError(f"positions must be sinusoidal, learned or none, not {kind!r}")
        self.kind = kind
        if kind == "learned":
            self.table = nn.Parameter(torch.empty(n_ctx, d_model))
            nn.init.normal_(self.table, std=d_model**-0.5)
        else:
            blank = kind == "none" or torch.get_default_device().type == "meta"  # has no values
            table = torch.zeros(n_ctx, d_model) if blank else sinusoidal(n_ctx, d_model)
            self.register_buffer("table", table, persistent=False)

    def forward(self, n: int, start: int = 0) -> Float[Tensor, "n d_model"]:
        """Return the vectors of positions start … start+n−1."""
        return self.table[start : start + n]
