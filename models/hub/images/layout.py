"""Match tokens of a vision model with patches of the image, measured before the first layer.

Nothing is taken from a family's name: a token is a patch if its first vector depends on the pixels
of that patch and on no others, and a special token if it depends on no pixel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.errors import CheckpointError
from models.hub.sizes import MAX_HUB_TOKENS
from models.images import PatchGrid

MAX_SPECIAL_TOKENS = 32  # tokens of an image that are not patches
NO_GRID = "its tokens are not the patches of one grid"


def patch_grid(
    module: Any, pixels: Float[Tensor, "batch channel height width"]
) -> tuple[PatchGrid, tuple[int, int]]:
    """Return the tokens that a model makes of an image, and the height and width that they read.

    If a side is not a multiple of the patch, no patch reads the pixels left over below or right.

    Raises:
        CheckpointError: they are not the patches of one grid, with special tokens around it.
    """
    with torch.enable_grad():
        image = pixels.detach().clone().requires_grad_()
        first = first_vectors(module, pixel_values=image)
        if first is None or first.dim() != 3 or first.shape[0] != 1:
            raise CheckpointError(f"{NO_GRID}: its first layer reads no row of vectors")
        rows, columns = _sides(module, pixels)
        n, n_special = first.shape[1], first.shape[1] - rows * columns
        if not 0 <= n_special <= MAX_SPECIAL_TOKENS or n > MAX_HUB_TOKENS:
            raise CheckpointError(
                f"{NO_GRID}: it has {n:,} tokens, and the image {rows} × {columns} patches"
            )
        reads = Reads(first, image)
        n_before = next((i for i in range(n_special) if reads.box(i)), n_special)
        height, width = _patch_size(reads, rows, columns, n_before)
        n_after = n_special - n_before
        after = range(n - n_after, n)
        if any(reads.box(i) for i in after):
            raise CheckpointError(f"{NO_GRID}: its special tokens read pixels")
        before = special_names(module, first, range(n_before))
        grid = PatchGrid(rows, columns, before, special_names(module, first, after))
        return grid, (rows * height, columns * width)


def first_vectors(module: Any, **inputs: Tensor) -> Tensor | None:
    """Return the vectors that the first layer reads, as the library returns them."""
    output = module(**inputs, output_hidden_states=True)
    states = getattr(output, "hidden_states", None) or getattr(
        getattr(output, "vision_model_output", None), "hidden_states", None
    )
    return states[0] if states else None


def _sides(module: Any, pixels: Tensor) -> tuple[int, int]:
    """Return the rows and columns of patches, by the patch size in the configuration."""
    config = getattr(module.config, "vision_config", module.config)
    size = getattr(config, "patch_size", None)
    height, width = size if isinstance(size, list | tuple) and len(size) == 2 else (size, size)
    if not isinstance(height, int) or not isinstance(width, int) or min(height, width) < 1:
        raise CheckpointError(f"{NO_GRID}: its configuration gives no patch_size")
    return pixels.shape[-2] // height, pixels.shape[-1] // width


class Reads:
    """The cells of an input that the first vectors depend on, by the gradient.

    The last two axes of the input are its rows and columns.
    """

    def __init__(self, first: Tensor, cells: Tensor) -> None:
        self._first, self._cells = first, cells

    def box(self, token: int) -> tuple[int, int, int, int] | None:
        """Return (top, left, bottom, right) of a token's cells; None if it depends on none."""
        gradient = _gradients(self._first[0, token], [self._cells])[0]
        if gradient is None or not bool(gradient.any()):
            return None
        where = gradient.abs().flatten(0, -3).sum(0).nonzero()
        (top, left), (bottom, right) = where.amin(0).tolist(), where.amax(0).tolist()
        return top, left, bottom + 1, right + 1


def _patch_size(reads: Reads, rows: int, columns: int, first: int) -> tuple[int, int]:
    """Return the height and width of a patch in pixels. Raises CheckpointError."""
    corner = reads.box(first)
    if corner is None:
        raise CheckpointError(f"{NO_GRID}: a patch reads no pixels")
    size = corner[2] - corner[0], corner[3] - corner[1]
    check_places(reads, rows, columns, first, size, size, "pixels")
    return size


def check_places(
    reads: Reads,
    rows: int,
    columns: int,
    first: int,
    size: tuple[int, int],
    stride: tuple[int, int],
    cells: str,
) -> None:
    """Raise CheckpointError unless the corner patches and their neighbours read `cells` in order.

    Token `first` is the patch in the corner, and the next one begins a `stride` further on.
    """
    places = {(0, 0), (0, columns - 1), (rows - 1, 0), (rows - 1, columns - 1)}
    places |= {(rows // 2, columns // 2), (0, min(1, columns - 1)), (min(1, rows - 1), 0)}
    for row, column in places:
        top, left = row * stride[0], column * stride[1]
        box = reads.box(first + row * columns + column)
        if box != (top, left, top + size[0], left + size[1]):
            raise CheckpointError(
                f"{NO_GRID}: the token of row {row + 1}, column {column + 1} reads other {cells}"
            )


def special_names(
    module: nn.Module, first: Float[Tensor, "batch token d_model"], tokens: Sequence[int]
) -> tuple[str, ...]:
    """Return the names of special tokens, all different."""
    return _distinct([_name(module, first, i) for i in tokens])


def _name(module: nn.Module, first: Tensor, token: int) -> str:
    """Return a special token's name: that of the parameter its first vector comes from."""
    candidates = [(name, p) for name, p in module.named_parameters() if _is_token(name, p)]
    gradients = _gradients(first[0, token], [p for _, p in candidates])
    for (name, _), gradient in zip(candidates, gradients, strict=True):
        if gradient is not None and bool(gradient.any()):
            last = name.rpartition(".")[2]
            for ending in ("_tokens", "_token", "_embedding"):
                last = last.removesuffix(ending)
            return {"cls": "[CLS]", "class": "[CLS]"}.get(last, f"[{last}]")
    return "[special]"


def _gradients(vector: Tensor, causes: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """Return the gradient of a vector with respect to each cause; None where there is none.

    Its numbers are weighted, since those of a normalised vector have a fixed sum.
    """
    if not causes or not vector.requires_grad:
        return [None] * len(causes)
    weights = torch.linspace(0.5, 1.5, len(vector), dtype=vector.dtype, device=vector.device)
    return torch.autograd.grad(
        (vector * weights.square()).sum(), causes, retain_graph=True, allow_unused=True
    )


def _is_token(name: str, parameter: Tensor) -> bool:
    """Return True for the parameters that may be special tokens: one or few vectors, no matrix."""
    last = name.rpartition(".")[2]
    return ("token" in last or last == "class_embedding") and (
        parameter.numel() // max(1, parameter.shape[-1]) <= MAX_SPECIAL_TOKENS
    )


def _distinct(names: list[str]) -> tuple[str, ...]:
    """Return the names, with a number after those that several tokens share."""
    counts: dict[str, int] = {}
    result = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        is_one = names.count(name) == 1
        result.append(name if is_one else f"{name[:-1]} {counts[name]}]")
    return tuple(result)
