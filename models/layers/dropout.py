"""Dropout (Srivastava et al. 2014), fast on a CPU."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

DROPOUT_STEPS = 2**16  # resolution of a probability: 16 random bits per element


class Dropout(nn.Module):
    """Dropout: in training, each element becomes 0 with probability p and the rest are scaled up.

    torch's own draws a random number for each element, which takes as long as a matrix product of
    the same size; here four elements share the 64 bits of one.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if not self.training or not self.p:
            return x
        if x.device.type != "cpu":
            return nn.functional.dropout(x, self.p)  # one kernel there
        return x * keep_mask(x.shape, self.p).to(x.dtype)


def keep_mask(shape: torch.Size, p: float) -> Tensor:
    """Return 0 with probability p (to 1/65,536), else the number that makes the mean 1.

    It draws from torch's default generator.
    """
    n, dropped = shape.numel(), round(p * DROPOUT_STEPS)
    bits = torch.empty((n + 3) // 4, dtype=torch.int64).random_(-(2**63), None)  # all 64 bits
    uniform = bits.view(torch.int16)[:n].view(shape).float()  # four numbers of 16 bits each
    # the smallest number that stays; whole numbers below it are clamped to 0
    least = dropped - DROPOUT_STEPS // 2
    return uniform.sub_(least - 1).clamp_(0, 1).mul_(DROPOUT_STEPS / (DROPOUT_STEPS - dropped))
