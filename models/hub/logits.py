"""Changes to logits after the output matrix: a factor, or a soft cap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

_EXACT = 1e-4  # from 1, below which a measured factor is 1


@dataclass(frozen=True)
class LogitChange:
    """logits · scale, then cap · tanh(logits / cap) if there is a cap (Gemma 2, section 2.3)."""

    scale: float = 1.0
    cap: float = 0.0

    def __call__(self, logits: Tensor) -> Tensor:
        logits = logits if self.scale == 1 else logits * self.scale
        return self.cap * torch.tanh(logits / self.cap) if self.cap else logits


UNCHANGED = LogitChange()


def change_between(
    logits: Float[Tensor, "*places vocab"],
    expected: Float[Tensor, "*places vocab"],
    caps: Sequence[float] = (),
) -> LogitChange:
    """Return what makes `expected` of logits: the factor is measured, under no cap or one of these.

    It is UNCHANGED if none of them does.
    """
    logits, expected = logits.double(), expected.double()
    for cap in (0.0, *caps):
        before = cap * torch.atanh((expected / cap).clamp(-1, 1)) if cap else expected
        if not bool(before.isfinite().all()):
            continue
        scale = float((before * logits).sum() / logits.square().sum().clamp(min=1e-300))
        change = LogitChange(1.0 if abs(scale - 1) < _EXACT else scale, cap)
        if torch.allclose(change(logits), expected, rtol=1e-3, atol=1e-3):
            return change
    return UNCHANGED


def soft_caps(config: Any) -> list[float]:
    """Return the numbers above 0 of a configuration that are called soft caps."""
    parts = [config, *(getattr(config, name, None) for name in ("text_config", "decoder"))]
    return [
        float(value)
        for part in parts
        if part is not None
        for name, value in vars(part).items()
        if "softcap" in name and isinstance(value, int | float) and value > 0
    ]
