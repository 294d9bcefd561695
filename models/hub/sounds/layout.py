"""Match the tokens of a speech model with the sound, measured before its first layer."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from models.errors import CheckpointError
from models.hub.images.layout import (
    MAX_SPECIAL_TOKENS,
    NO_GRID,
    Reads,
    check_places,
    first_vectors,
    special_names,
)
from models.hub.sizes import MAX_HUB_TOKENS
from models.hub.sounds.columns import SpectrogramColumns
from models.sounds import SpectrogramGrid

AlongAxes = tuple[int, int]  # along bands, along time
NO_FRAMES = "its frames are not a row of equal steps through the sound"


def sound_frames(encoder: Any, features: Float[Tensor, "1 band time"]) -> tuple[int, float]:
    """Return the number of frames, and the step between two, in columns of the features.

    A frame's place is the middle of the columns that its first vector depends on, by the gradient.

    Raises:
        CheckpointError: the frames are not equal steps from the first column.
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
                f"{NO_FRAMES}: it makes {n:,} frames; 8 to {MAX_HUB_TOKENS:,} can be shown"
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


def spectrogram_grid(
    module: Any, name: str, features: Float[Tensor, "1 a b"], columns: SpectrogramColumns, rate: int
) -> SpectrogramGrid:
    """Return the tokens that a model makes of its input `name`, a spectrogram.

    Size and stride of the patches are those of the bands and columns that the first ones read.

    Raises:
        CheckpointError: they are not the patches of one grid, with special tokens around it.
    """
    with torch.enable_grad():
        cells = columns.by_bands(features).detach().clone().requires_grad_()
        first = first_vectors(module, **{name: columns.by_bands(cells)})
        if first is None or first.dim() != 3 or first.shape[0] != 1:
            raise CheckpointError(f"{NO_GRID}: its first layer reads no row of vectors")
        n, reads = first.shape[1], Reads(first, cells)
        if n > MAX_HUB_TOKENS:
            raise CheckpointError(f"{NO_GRID}: it has {n:,} tokens")
        n_before = next((i for i in range(min(n, MAX_SPECIAL_TOKENS + 1)) if reads.box(i)), n)
        size, stride, shape = _measure_patches(reads, range(n_before, n), cells.shape[1:])
        n_after = n - n_before - shape[0] * shape[1]
        if not 0 <= n_after <= MAX_SPECIAL_TOKENS - n_before:
            raise CheckpointError(
                f"{NO_GRID}: it has {n:,} tokens, and the spectrogram {shape[0]} × {shape[1]} patches"
            )
        check_places(reads, *shape, n_before, size, stride, "bands and columns")
        after = range(n - n_after, n)
        if any(reads.box(i) for i in after):
            raise CheckpointError(f"{NO_GRID}: its special tokens read the spectrogram")
        before, end = (special_names(module, first, some) for some in (range(n_before), after))
    return SpectrogramGrid(*shape, before, end, size, stride, columns.step / rate)


def _measure_patches(
    reads: Reads, tokens: range, room: torch.Size
) -> tuple[AlongAxes, AlongAxes, AlongAxes]:
    """Return size and stride of the patches, and how many of them fit in bands and in columns."""
    corner = reads.box(tokens[0]) if tokens else None
    if corner is None:
        raise CheckpointError(f"{NO_GRID}: no token reads the spectrogram")
    size = corner[2] - corner[0], corner[3] - corner[1]
    across = _begin(reads, tokens, 1, 1)
    columns = 1 + (room[1] - size[1]) // across if across else 1
    down = _begin(reads, tokens, columns, 0)
    rows = 1 + (room[0] - size[0]) // down if down else 1
    return size, (down or size[0], across or size[1]), (rows, columns)


def _begin(reads: Reads, tokens: range, i: int, axis: int) -> int:
    """Return where patch i begins along an axis; 0 if there is no such patch."""
    box = reads.box(tokens[i]) if i < len(tokens) else None
    return box[axis] if box else 0
