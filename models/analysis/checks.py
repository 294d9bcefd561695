"""What must hold for an attention site if its picture is true; shown beside the picture, with the values."""

from dataclasses import dataclass

import torch

from models.trace import AttentionSite


@dataclass(frozen=True)
class Check:
    """One claim, the value measured, and the limit it must not pass."""

    name: str
    value: float
    limit: float
    sentence: str

    @property
    def passed(self) -> bool:
        return self.value <= self.limit   # NaN fails


def check_site(site: AttentionSite, batch: int = 0) -> list[Check]:
    """Rows sum to 1, blocked cells are exactly 0, and weights·v is what the fused kernel returned in the forward pass.

    Float32: sums over hundreds of keys differ from the kernel's order of summation by some 1e-6 of the values' size."""
    weights, allowed = site.weights(batch=batch), site.allowed(batch, None)   # (head, query, key)
    row_error = _largest((weights.sum(-1) - 1)[allowed.any(-1)])
    blocked = _largest(weights[~allowed])
    used = _largest(site.head_out(batch=batch) - site.out[batch])
    size = max(1.0, float(site.v[batch].abs().max()))
    return [
        Check("rows sum to 1", row_error, 1e-5, "Each row of weights sums to 1; largest difference over all heads"),
        Check("blocked cells are 0", blocked, 0.0, f"Largest weight on the {int((~allowed).sum())} blocked cells of all heads"),
        Check("weights · v is what the model used", used, 1e-5 * size, "Largest difference from the model's own output"),
    ]


def _largest(values: torch.Tensor) -> float:
    return float(values.abs().max()) if values.numel() else 0.0
