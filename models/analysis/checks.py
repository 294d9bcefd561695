"""What must hold for an attention site if its picture is true; shown beside the picture, with the values."""

from dataclasses import dataclass

import torch

from models.trace import AttentionSite

CELLS = 2**20      # weights worked out at a time


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
    """Rows sum to 1, blocked cells are exactly 0, and weights·v is what the fused kernel returned in the forward pass. Worked out
    head by head and a few rows at a time: a long text's weights are never all there at once.

    Float32: sums over hundreds of keys differ from the kernel's order of summation by some 1e-6 of the values' size."""
    row_error = blocked = used = 0.0
    n_blocked, step = 0, max(1, CELLS // site.n_key)
    for head in range(site.n_heads):
        for start in range(0, site.n_query, step):
            rows = slice(start, start + step)
            weights, allowed = site.weights(head, batch, rows), site.allowed(batch, head, rows)   # (query, key)
            n_blocked += int((~allowed).sum())
            row_error = _larger(row_error, (weights.sum(-1) - 1)[allowed.any(-1)])
            blocked = _larger(blocked, weights[~allowed])
            used = _larger(used, site.head_out(head, batch, rows) - site.out[batch, head, rows])
    size = max(1.0, float(site.v[batch].abs().max()))
    return [
        Check("rows sum to 1", row_error, 1e-5, "Each row of weights sums to 1; largest difference over all heads"),
        Check("blocked cells are 0", blocked, 0.0, f"Largest weight on the {n_blocked} blocked cells of all heads"),
        Check("weights · v is what the model used", used, 1e-5 * size, "Largest difference from the model's own output"),
    ]


def _larger(so_far: float, values: torch.Tensor) -> float:
    """The largest absolute value yet; NaN once there was one."""
    largest = float(values.abs().max()) if values.numel() else 0.0
    return so_far if largest <= so_far else largest if so_far == so_far else so_far
