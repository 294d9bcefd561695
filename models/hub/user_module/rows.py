"""Measure whether a module of the user's own keeps the rows of a batch apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Shaped
from torch import Tensor

from models.analysis.checks import ROUNDING, rounding_in


@torch.no_grad()
def keeps_rows_apart(
    answer: Callable[..., Tensor | None], inputs: Sequence[Shaped[Tensor, "batch ..."]]
) -> bool:
    """Return True if the first row and one of other tokens are answered together as each is alone.

    `answer` is the module; it may read the first row only, or make a mask for one row.
    """
    row = [t[:1] for t in inputs]
    other = [replaced_tokens(t) for t in row]
    try:
        alone = [answer(*row), answer(*other)]
        together = answer(*(torch.cat(pair) for pair in zip(row, other, strict=True)))
    except Exception:  # the module is its owner's and may raise anything
        return False
    if together is None or len(together) != len(alone):
        return False
    return all(_is_same(together[i : i + 1], one) for i, one in enumerate(alone))


def replaced_tokens(t: Shaped[Tensor, "batch n ..."]) -> Shaped[Tensor, "batch n ..."]:
    """Return an input in which every token is replaced.

    A token becomes the one before it or, if that is equal, a neighbouring number.
    """
    other = t.roll(1, dims=1)
    is_same = (other == t).flatten(2).all(-1) if t.dim() > 2 else other == t
    neighbour = torch.where(t > 0, t - 1, t + 1)
    return torch.where(is_same.view(*is_same.shape, *[1] * (t.dim() - 2)), neighbour, other)


def _is_same(one: Tensor, other: Tensor | None) -> bool:
    if other is None or one.shape != other.shape:
        return False
    if not other.is_floating_point():
        return torch.equal(one, other)
    limit = max(ROUNDING, rounding_in(other.dtype)) * max(1.0, float(other.abs().max()))
    return float((one - other).abs().max()) <= limit
