"""The rotary positions of somebody else's model, by its own module; probe.py says whether a short run bears it out."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from models.layers.rotation import Rotation


@dataclass(frozen=True)
class Rotary:
    """The module that makes cos and sin. `miss` is by how much a short run missed them."""

    module: nn.Module
    miss: float = 0.0

    @torch.no_grad()
    def rotation(self, n: int) -> Rotation | None:
        """At positions 0…n−1 of a text of n; None where it makes something else than pairs (i, i + n_pairs). A copy is asked,
        because with some scalings the module keeps how long its last text was."""
        module = deepcopy(self.module)
        device = next((b.device for b in module.buffers()), torch.device("cpu"))
        tables = module(torch.zeros(1, device=device), torch.arange(n, device=device)[None])
        if not (
            isinstance(tables, tuple) and len(tables) == 2 and all(_is_table(t, n) for t in tables)
        ):
            return None
        halves = [t[0].float().cpu().chunk(2, dim=-1) for t in tables]
        if not all(torch.equal(first, second) for first, second in halves):
            return None
        return Rotation(*(first for first, _ in halves), self.miss)


def _is_table(t: object, n: int) -> bool:
    return (
        isinstance(t, Tensor)
        and t.dim() == 3
        and t.shape[:2] == (1, n)
        and t.shape[2] % 2 == 0
        and t.shape[2] > 0
    )
