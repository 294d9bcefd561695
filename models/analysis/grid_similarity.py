"""Similarity of the position vectors of an image's patches (Dosovitskiy et al. 2021, fig. 7)."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.images import PatchGrid


@dataclass(frozen=True, eq=False)
class GridSimilarity:
    """Cosine of each patch's position vector with that of each patch, row by row of the grid."""

    rows: int
    columns: int
    cosine: Float[Tensor, "patch patch"]

    @cached_property
    def _apart(self) -> tuple[Tensor, Tensor]:
        """Return the distance of two patches in rows and in columns."""
        place = torch.arange(self.rows * self.columns)
        row, column = place // self.columns, place % self.columns
        return (row[:, None] - row).abs(), (column[:, None] - column).abs()

    @property
    def beside(self) -> float:
        """Mean over patches that share an edge."""
        rows, columns = self._apart
        return self._mean(rows + columns == 1)

    @property
    def in_line(self) -> float:
        """Mean over patches of one row or column that share no edge."""
        rows, columns = self._apart
        return self._mean(((rows == 0) | (columns == 0)) & (rows + columns > 1))

    @property
    def elsewhere(self) -> float:
        """Mean over patches of other rows and columns."""
        rows, columns = self._apart
        return self._mean((rows > 0) & (columns > 0))

    def _mean(self, pairs: Bool[Tensor, "patch patch"]) -> float:
        """Return the mean over these pairs; NaN if there are none."""
        return float(self.cosine[pairs].mean())

    def of(self, row: int, column: int) -> Float[Tensor, "row column"]:
        """Return the cosines of one patch with all, as they are in the image."""
        return self.cosine[row * self.columns + column].reshape(self.rows, self.columns)


def grid_similarity(table: Float[Tensor, "token d_model"], grid: PatchGrid) -> GridSimilarity:
    """Return the similarity of the patches' position vectors; special tokens are left out.

    Raises:
        ValueError: the table does not have one vector for each token of the grid.
    """
    if len(table) != len(grid.tokens):
        raise ValueError(f"expected {len(grid.tokens)} position vectors, got {len(table)}")
    first = len(grid.before)
    vectors = table[first : first + grid.n_patches].double()
    vectors = vectors / vectors.norm(dim=1, keepdim=True).clamp(min=1e-300)
    return GridSimilarity(grid.rows, grid.columns, vectors @ vectors.T)
