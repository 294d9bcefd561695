"""Dropout (Srivastava et al. 2014), quick on a processor."""

import torch
from torch import Tensor, nn

STEPS = 2**16  # a probability is a whole number of these parts: 16 bits decide over each number


class Dropout(nn.Module):
    """While training, each number becomes 0 with probability p and the others grow to match; at other times nothing changes.

    torch's own draws a random number for each of them, which takes as long as a matrix product of the same size; here four
    share the 64 bits of one."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.p:
            return x
        if x.device.type != "cpu":
            return nn.functional.dropout(x, self.p)  # one kernel there
        return x * keep_mask(x.shape, self.p).to(x.dtype)


def keep_mask(shape: torch.Size, p: float) -> Tensor:
    """0 with probability p, to 1/65,536, else what makes the mean 1; by torch's generator."""
    n, dropped = shape.numel(), round(p * STEPS)
    bits = torch.empty((n + 3) // 4, dtype=torch.int64).random_(
        -(2**63), None
    )  # all 64 bits, four numbers of 16
    drawn = bits.view(torch.int16)[:n].view(shape).float()
    least = (
        dropped - STEPS // 2
    )  # of those that stay; they are whole numbers, so that one less is 0 and no more
    return drawn.sub_(least - 1).clamp_(0, 1).mul_(STEPS / (STEPS - dropped))
