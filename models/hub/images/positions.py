"""The position vectors of a grid of patches: learned ones, added before the first layer."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from models.hub.images.layout import first_vectors
from models.hub.positions import PositionTable


def added_positions(module: Any, **inputs: Tensor) -> PositionTable | None:
    """Return the parameter that is added to the tokens, a row for each; None if none is.

    A row is added if the gradient of a weighted token with respect to it is these weights, and
    with respect to all other rows 0.
    """
    with torch.enable_grad():
        first = first_vectors(module, **inputs)
        if first is None or not first.requires_grad:
            return None
        n, width = first.shape[1:]
        candidates = [
            p for p in module.parameters() if p.numel() == n * width and p.shape[-1] == width
        ]
        table = next((p for p in candidates if _is_added(first[0], p)), None)
    return None if table is None else PositionTable(table.detach().reshape(n, width), True)


def _is_added(tokens: Float[Tensor, "token feature"], table: Tensor) -> bool:
    n, width = tokens.shape
    weights = torch.linspace(0.5, 1.5, width, dtype=tokens.dtype, device=tokens.device)
    for token in {0, 1 % n, n // 2, n - 1}:
        (gradient,) = torch.autograd.grad(
            (tokens[token] * weights).sum(), table, retain_graph=True, allow_unused=True
        )
        if gradient is None:
            return False
        expected = torch.zeros(n, width, dtype=gradient.dtype, device=gradient.device)
        expected[token] = weights
        if not torch.equal(gradient.reshape(n, width), expected):
            return False
    return True
