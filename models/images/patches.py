"""An image as a stream: the grid of its patches, and the row of tokens a model reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from models.tokenizers.encoding import Encoding


@dataclass(frozen=True)
class PatchGrid:
    """The tokens of an image: `rows` × `columns` patches row by row, and special ones around them.

    The names of the special tokens `before` and `after` are in brackets, as in "[CLS]".
    """

    rows: int
    columns: int
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def n_patches(self) -> int:
        return self.rows * self.columns

    @property
    def patches(self) -> tuple[str, ...]:
        """The names of all patches; "r2c3" is in row 2, column 3, counted from 1."""
        return tuple(
            f"r{row + 1}c{column + 1}" for row in range(self.rows) for column in range(self.columns)
        )

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """The names of all tokens."""
        return (*self.before, *self.patches, *self.after)

    def patch(self, token: int) -> tuple[int, int] | None:
        """Return the (row, column) of a token, from 0; None for a special one."""
        index = token - len(self.before)
        return divmod(index, self.columns) if 0 <= index < self.n_patches else None


@dataclass(frozen=True)
class PatchRow(Encoding):
    """An image as tokens, with the pixels that the model is called with.

    `text` is the ImageFile. The tokens have no offsets in a text. `seen` is the image as it was cut
    into patches, with values from 0 to 1. If the colours of the pixels are unknown, it is grey from
    the smallest number to the largest (`is_stretched`). `digest` identifies the pixels.
    """

    grid: PatchGrid = PatchGrid(0, 0)
    digest: str = ""
    pixels: Float[Tensor, "channel height width"] = field(
        default_factory=lambda: torch.empty(3, 0, 0), compare=False
    )
    seen: Float[Tensor, "read_height read_width 3"] = field(
        default_factory=lambda: torch.empty(0, 0, 3), compare=False
    )
    is_stretched: bool = field(default=False, compare=False)

    @classmethod
    def of(
        cls,
        text: str,
        grid: PatchGrid,
        pixels: Float[Tensor, "channel height width"],
        seen: Float[Tensor, "read_height read_width 3"],
        digest: str,
        *,
        is_stretched: bool = False,
    ) -> PatchRow:
        """Return the row of an image on this grid."""
        tokens = grid.tokens
        n: Sequence[int] = range(len(tokens))
        return cls(
            text, tuple(n), tokens, (None,) * len(tokens),
            grid=grid, digest=digest, pixels=pixels, seen=seen, is_stretched=is_stretched,
        )  # fmt: skip
