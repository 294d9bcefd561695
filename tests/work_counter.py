"""torch's own counter of floating-point operations, told of an addition that it does not know."""

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode


def counting() -> FlopCounterMode:
    """Counts within `with`, a bias plus a matrix times a vector too."""
    return FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmv: _addmv})


def _addmv(bias: torch.Size, matrix: torch.Size, *_: Any, **__: Any) -> int:
    return 2 * matrix.numel()
