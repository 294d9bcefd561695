"""Measure the steps between q·k and the softmax: scale, added terms, mask.

The steps are repeated with 0 in place of q·k, which leaves the added terms and the blocked cells;
their derivative is the scale. The result is then checked against the scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.hub.recording.by_hand.followed import FollowedStep, ScoreProduct
from models.hub.recording.by_hand.roles import WeightedSum
from models.hub.recording.masks import LOWEST

# Tolerance, in roundings of the largest score, for another order of scaling, bias and mask and of
# the sums in q·k. Half precision accumulates in float32, so it needs fewer.
_ROUNDINGS, _ROUNDINGS_OF_HALF = 64, 8
FourAxisScores = Float[Tensor, "batch head query key"]


@dataclass(frozen=True)
class ExplainedScores:
    """Scores as cap(factor · q·k) + added where open; `cap` is None without a soft cap.

    `raw` is q·k, `masked` the input of the softmax. `factor` has size 1 along axes on which it is
    constant.
    """

    raw: FourAxisScores
    masked: FourAxisScores
    factor: Float[Tensor, "#batch #head #query #key"]
    added: FourAxisScores
    open: Bool[Tensor, "batch head query key"]
    cap: float | None = None

    def scores(self, terms: Float[Tensor, "#batch #head #query key"] | None) -> FourAxisScores:
        """Return the scores before the mask: the module's own numbers at open cells.

        Elsewhere `terms` are added to the scaled q·k or, if None, the row's constant.
        """
        free = self.factor * self.raw
        if self.cap is not None:
            free = self.cap * torch.tanh(free / self.cap)
        added = self.row_constant if terms is None else terms
        closed = ~self.open.any(-1, keepdim=True)  # finite numbers leave a closed row readable
        return torch.where(self.open | (closed & self.masked.isfinite()), self.masked, free + added)

    @property
    def row_constant(self) -> Float[Tensor, "batch head query 1"]:
        """The number added to every open key of a row; 0 if it differs from key to key."""
        least = self.added.masked_fill(~self.open, torch.inf).amin(-1, keepdim=True)
        most = self.added.masked_fill(~self.open, -torch.inf).amax(-1, keepdim=True)
        return torch.where(least == most, least, torch.zeros_like(least))


def explain_scores(weighted_sum: WeightedSum) -> ExplainedScores | str:
    """Return the explanation of a softmax's scores, or the reason why there is none."""
    step = weighted_sum.softmax.scores
    if step is None or not isinstance(root := step.root, ScoreProduct):
        return "its scores do not come from a product of queries and keys that could be followed"
    raw, masked = (
        weighted_sum.by_head(t, layout)
        for t, layout in ((root.raw(), root.layout), (step.value, step.layout))
    )
    if raw is None or masked is None:
        return "its scores have an axis besides texts, heads, queries and keys"
    whole = _take_apart(weighted_sum, root, step, raw, masked)
    is_half = raw.dtype.itemsize < 4  # too coarse to tell a cap from a scale
    if (whole is None or is_half) and (capped := step.before(_TANH)) is not None:
        whole = _explain_capped(weighted_sum, root, step, capped, raw, masked) or whole
    return whole or "its step from q·k to the softmax is not a scale, an added term and a mask"


_TANH = frozenset({torch.tanh, Tensor.tanh, torch.nn.functional.tanh})


def _take_apart(
    weighted_sum: WeightedSum,
    root: ScoreProduct,
    step: FollowedStep,
    raw: FourAxisScores,
    masked: FourAxisScores,
) -> ExplainedScores | None:
    at_zero, slope = _probe(step.again, root.value)
    slope = weighted_sum.by_head(slope, root.layout)
    at_zero = weighted_sum.by_head(at_zero, step.layout)
    if slope is None or at_zero is None:
        return None
    is_open = at_zero > LOWEST
    factor = _shared_factor(slope, is_open)
    if factor is None:
        return None
    added = at_zero.masked_fill(~is_open, 0.0)
    result = ExplainedScores(raw, masked, factor, added, is_open)
    return result if _holds(factor * raw + added, result) else None


def _explain_capped(
    weighted_sum: WeightedSum,
    root: ScoreProduct,
    step: FollowedStep,
    inner: FollowedStep,
    raw: FourAxisScores,
    masked: FourAxisScores,
) -> ExplainedScores | None:
    """Return scores that tanh keeps below a cap: cap · tanh(s · q·k / cap)."""
    before, slope = (weighted_sum.by_head(t, root.layout) for t in _probe(inner.again, root.value))
    if before is None or slope is None or before.any():
        return None
    everywhere = torch.ones_like(raw, dtype=torch.bool)
    inside = _shared_factor(slope, everywhere)
    if inside is None or inside.numel() != 1:
        return None
    # far from 0, tanh is 1 and leaves the cap; at 0 it leaves the rest
    most = min(1e9, torch.finfo(root.value.dtype).max)
    far = step.again(torch.full_like(root.value, most) * inside.sign().to(root.value.dtype))
    at_zero = step.again(torch.zeros_like(root.value))
    far, at_zero = (weighted_sum.by_head(t, step.layout) for t in (far, at_zero))
    if far is None or at_zero is None:
        return None
    is_open = at_zero > LOWEST
    caps = (far - at_zero)[is_open]
    added = at_zero.masked_fill(~is_open, 0.0)
    if not caps.numel() or not bool((caps == caps[0]).all()) or bool(added.any()):
        return None
    cap = float(caps[0])
    result = ExplainedScores(raw, masked, inside * cap, added, is_open, cap)
    return result if _holds(cap * torch.tanh(inside * raw), result) else None


def _probe(function: Callable[[Tensor], Tensor], value: Tensor) -> tuple[Tensor, Tensor]:
    """Return the steps' result at 0 and their derivative there."""
    with torch.inference_mode(False), torch.enable_grad():
        zeros = torch.zeros_like(value.detach()).requires_grad_()
        result = function(zeros)
        total = result.float().masked_fill(~(result > LOWEST), 0.0).sum()
        slope = (
            torch.autograd.grad(total, zeros, allow_unused=True)[0] if total.requires_grad else None
        )
    return result.detach(), torch.zeros_like(value) if slope is None else slope.detach()


def _shared_factor(
    slope: FourAxisScores, is_open: Bool[Tensor, "batch head query key"]
) -> Tensor | None:
    """Return one factor for all open cells, or for each head, query or key; else None."""
    for axes in ((0, 1, 2, 3), (0, 2, 3), (3,), (2,)):
        least = slope.masked_fill(~is_open, torch.inf).amin(axes, keepdim=True)
        most = slope.masked_fill(~is_open, -torch.inf).amax(axes, keepdim=True)
        if bool(
            (least >= most).all()
        ):  # in a row without an open cell, infinity is above −infinity
            return torch.where(least == most, least, torch.ones_like(least))
    return None


def _holds(scores: FourAxisScores, explained: ExplainedScores) -> bool:
    """Return True if the scores are the softmax's input, and the same cells are blocked."""
    masked, is_open = explained.masked, explained.open
    if not torch.equal(masked > LOWEST, is_open) or not bool(is_open.any()):
        return False
    softmaxed, dtype = masked[is_open].float(), masked.dtype
    if explained.raw.dtype.itemsize < dtype.itemsize:
        dtype = explained.raw.dtype
    n_roundings = _ROUNDINGS_OF_HALF if dtype.itemsize < 4 else _ROUNDINGS
    limit = n_roundings * torch.finfo(dtype).eps * max(1.0, float(softmaxed.abs().max()))
    return bool(((scores[is_open].float() - softmaxed).abs() <= limit).all())
