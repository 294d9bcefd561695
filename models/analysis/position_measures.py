"""Measures of position tables: how well they tell positions apart, and shifts by a fixed step."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from models.layers.positions import exponents, formula_table

PositionVectorTable = Float[Tensor, "n d_model"]


def rotation_matrix(formula: str, k: int, d_model: int) -> Float[Tensor, "d_model d_model"]:
    """R_k in float64: turns each pair of dimensions by k / 10000^e, e of its even dimension.

    PE(pos+k) = R_k·PE(pos) for all pos if a pair is (sin, cos) of one angle (Vaswani et al. 2017,
    §3.5); "sin-sin" has no such pairs, so it fails there.

    Raises:
        ValueError: `d_model` is odd.
    """
    if d_model % 2:
        raise ValueError(f"d_model must be even to pair its dimensions, not {d_model}")
    angle = k / 10000 ** exponents(formula, d_model)[0::2]
    turn = torch.zeros(d_model, d_model, dtype=torch.float64)
    even = torch.arange(0, d_model, 2)
    turn[even, even] = turn[even + 1, even + 1] = angle.cos()
    turn[even, even + 1] = angle.sin()  # sin(a+b) =  cos(b)·sin(a) + sin(b)·cos(a)
    turn[even + 1, even] = -angle.sin()  # cos(a+b) = −sin(b)·sin(a) + cos(b)·cos(a)
    return turn


def rotation_miss(formula: str, k: int, n: int, d_model: int) -> float:
    """Return the error of R_k·PE(pos) as PE(pos+k) over n positions.

    It is the root mean square, relative to their length.
    """
    table = formula_table(formula, n + k, d_model)
    return _miss(table[:n] @ rotation_matrix(formula, k, d_model).T, table[k:])


def best_linear_miss(formula: str, k: int, n: int, d_model: int) -> float:
    """Return that error for the best single matrix, by least squares over these n positions.

    Raises:
        ValueError: n < 2·d_model: with so few positions a matrix could fit anything.
    """
    if n < 2 * d_model:
        raise ValueError(f"n ({n}) must be at least twice d_model ({d_model})")
    table = formula_table(formula, n + k, d_model)
    here, shifted = table[:n], table[k:]
    return _miss(here @ torch.linalg.lstsq(here, shifted, driver="gelsd").solution, shifted)


def _miss(predicted: Tensor, true: Tensor) -> float:
    return float((predicted - true).norm() / true.norm())


@dataclass(frozen=True)
class SimilarityByDistance:
    """PE(pos)·PE(pos+k) for each distance k: mean, least and largest over all pos."""

    mean: Float[Tensor, "n"]
    least: Float[Tensor, "n"]
    largest: Float[Tensor, "n"]

    @property
    def floor(self) -> float:
        """PE·PEᵀ of the two least similar positions, relative to the mean squared length."""
        return float(self.least.min() / self.mean[0])

    @property
    def spread(self) -> float:
        """Largest gap between two positions at one distance; 0 if only the distance counts."""
        return float((self.largest - self.least).max())


def similarity_by_distance(table: PositionVectorTable) -> SimilarityByDistance:
    """Return PE·PEᵀ along its diagonals."""
    products = table.double() @ table.double().T
    diagonals = [products.diagonal(k) for k in range(len(table))]
    mean, least, largest = (
        torch.stack([getattr(d, how)() for d in diagonals]) for how in ("mean", "min", "max")
    )
    return SimilarityByDistance(mean, least, largest)


@dataclass(frozen=True)
class Neighbours:
    """The nearest other position of each position, and its Euclidean distance."""

    nearest: Int[Tensor, "n"]
    distance: Float[Tensor, "n"]
    length: float  # root mean square length of the vectors, to measure distances against

    @property
    def closest_pair(self) -> tuple[int, int]:
        """The two positions that are hardest to tell apart."""
        first = int(self.distance.argmin())
        second = int(self.nearest[first])
        return min(first, second), max(first, second)

    @property
    def least(self) -> float:
        """Distance of the closest pair."""
        return float(self.distance.min())

    @property
    def aliased(self) -> int:
        """Number of positions that resemble a distant position more than the adjacent ones."""
        here = torch.arange(len(self.nearest))
        return int(((self.nearest - here).abs() > 1).sum())


def neighbours(table: PositionVectorTable) -> Neighbours:
    """Return the nearest neighbour of each position.

    If an adjacent position ties with a further one up to rounding, the adjacent one counts.

    Raises:
        ValueError: There are fewer than two positions.
    """
    if len(table) < 2:
        raise ValueError(f"{len(table)} position has no neighbour; at least 2 are needed")
    table = table.double()
    apart = torch.cdist(table, table, compute_mode="donot_use_mm_for_euclid_dist").fill_diagonal_(
        torch.inf
    )
    distance, nearest = apart.min(1)
    here = torch.arange(len(table))
    length = float(table.pow(2).sum(1).mean().sqrt())
    for beside in (here - 1, here + 1):
        adjacent = beside.clamp(0, len(table) - 1)
        tie = apart[here, adjacent] <= distance + 1e-9 * max(length, 1.0)
        nearest = torch.where(tie, adjacent, nearest)
    return Neighbours(nearest, distance, length)


def n_varying(table: PositionVectorTable, least: float = 0.01) -> int:
    """Return the number of dimensions that change by at least `least` anywhere in the table."""
    return int(((table.amax(0) - table.amin(0)) >= least).sum())


@dataclass(frozen=True)
class Concatenated:
    """Addition and concatenation, each projected, computed independently.

    (x + p)·W and [x; p]·[W; W].
    """

    added: Float[Tensor, "n d_out"]
    concatenated: Float[Tensor, "n d_out"]
    folded: Float[Tensor, "n d_model"]  # [x; p]·[I; I], which is x + p

    @property
    def difference(self) -> float:
        """Largest difference between the two."""
        return float((self.added - self.concatenated).abs().max())


def add_or_concatenate(
    x: Float[Tensor, "n d_model"], p: Float[Tensor, "n d_model"], W: Float[Tensor, "d_model d_out"]
) -> Concatenated:
    """Add p to x and project with W, and concatenate them and project with stacked W."""
    both = torch.cat([x, p], dim=1)  # (n, 2·d_model)
    eye = torch.eye(x.shape[1], dtype=x.dtype)
    return Concatenated((x + p) @ W, both @ torch.cat([W, W]), both @ torch.cat([eye, eye]))


@dataclass(frozen=True)
class FormulaMeasures:
    """Measures of one formula at one size.

    Shifts are measured over `n_fit` positions, enough that a matrix cannot fit by chance.
    """

    formula: str
    table: PositionVectorTable
    n_varying: int
    similarity: SimilarityByDistance
    neighbours: Neighbours
    shift: int
    n_fit: int
    rotation_miss: float
    best_linear_miss: float


def measure_formula(formula: str, n: int, d_model: int, shift: int) -> FormulaMeasures:
    """Return all measures of one of FORMULAS over n positions (at least 2), in float64."""
    table = formula_table(formula, n, d_model)
    n_fit = max(n, 4 * d_model)
    return FormulaMeasures(
        formula,
        table,
        n_varying(table),
        similarity_by_distance(table),
        neighbours(table),
        shift,
        n_fit,
        rotation_miss(formula, shift, n_fit, d_model),
        best_linear_miss(formula, shift, n_fit, d_model),
    )
