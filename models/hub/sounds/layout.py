"""Match the frames of a speech model with the sound, measured before its first layer."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from models.errors import CheckpointError
from models.hub.sizes import MAX_HUB_TOKENS

NO_FRAMES = "its frames are not a row of equal steps through the sound"


def sound_frames(encoder: Any, features: Float[Tensor, "1 band time"]) -> tuple[int, float]:
    """Return the number of frames, and how many columns of the features one goes on.

    A frame's place is the middle of the columns that its first vector depends on, by the gradient.

    Raises:
        CheckpointError: the frames do not go on by equal steps from the first column.
    """
    with torch.enable_grad():
        inputs = features.detach().clone().requires_grad_()
        states = encoder(input_features=inputs, output_hidden_states=True).hidden_states
        if not states or states[0].dim() != 3 or len(states[0]) != 1:
            raise CheckpointError(f"{NO_FRAMES}: its first layer reads no row of vectors")
        first = states[0][0]
        n = len(first)
        if not 8 <= n <= MAX_HUB_TOKENS:
            raise CheckpointError(
                f"{NO_FRAMES}: it makes {n:,} frames; shown are 8 to {MAX_HUB_TOKENS:,}"
            )
        step = features.shape[-1] / n
        for frame in (n // 4, n // 2, n // 2 + 1, 3 * n // 4):
            middle = _middle(first[frame], inputs)
            if middle is None or abs(middle - frame * step) > 0.5:
                raise CheckpointError(f"{NO_FRAMES}: frame {frame} reads another part of it")
    return n, step


def _middle(vector: Float[Tensor, " d_model"], inputs: Tensor) -> float | None:
    """Return the middle of the columns that a vector depends on; None if it depends on none."""
    weights = torch.linspace(0.5, 1.5, len(vector), dtype=vector.dtype, device=vector.device)
    (gradient,) = torch.autograd.grad((vector * weights).sum(), inputs, retain_graph=True)
    columns = gradient[0].abs().sum(0).nonzero().flatten()
    return float(columns[0] + columns[-1]) / 2 if len(columns) else None
