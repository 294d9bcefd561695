"""Changes to logits after the output matrix: a factor, or a soft cap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from models.analysis.checks import rounding_in

_EXACT = 1e-4  # a measured factor this close to 1 counts as 1


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
    """Return the change from `logits` to `expected`, without a cap or with one of `caps`.

    If several changes agree up to rounding, the closest is returned: in half precision, caps far
    above the logits agree too. UNCHANGED if none agrees.
    """
    changes = [
        LogitChange(scale, cap)
        for cap in (0.0, *caps)
        for scale in (1.0, _factor(logits, expected, cap))
    ]
    apart = [(change(logits) - expected).double().abs() for change in changes]
    best = min(range(len(changes)), key=lambda i: float(apart[i].sum()))
    limit = rounding_in(logits.dtype) * max(1.0, float(expected.abs().max()))
    return changes[best] if float(apart[best].max()) <= limit else UNCHANGED


def _factor(
    logits: Float[Tensor, "*places vocab"], expected: Float[Tensor, "*places vocab"], cap: float
) -> float:
    """Return the least-squares factor of logits before a cap; 1 if it is 1 up to rounding.

    Logits near the cap, which say little about the factor, are left out.
    """
    exact = max(_EXACT, torch.finfo(logits.dtype).eps)
    logits, expected = logits.double(), expected.double()
    if cap:
        inside = expected.abs() < cap / 2
        logits, expected = logits[inside], cap * torch.atanh(expected[inside] / cap)
    scale = float((expected * logits).sum() / logits.square().sum().clamp(min=1e-300))
    return 1.0 if abs(scale - 1) < exact else scale


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
