"""Distinguish batch rows, heads, queries and keys by the tensors that have each axis."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from jaxtyping import Float, Shaped
from torch import Tensor

from models.hub.recording.by_hand.axes import (
    Atom,
    AtomAxis,
    AxisOrder,
    arrange_axes,
    resolve_axis,
    size_of,
)
from models.hub.recording.by_hand.followed import (
    FollowedStep,
    ScoreProduct,
    Softmax,
    axes_of,
    layout_of,
)
from models.hub.recording.by_hand.products import Product

ADDED = "the call that weighs its values adds something else to their sum"
WRONG_AXIS = "its softmax does not run over the axis that its values are summed over"
UNKNOWN_ROWS = "it is unknown which axis of its weights is that of the {} texts"


@dataclass(frozen=True)
class Roles:
    """The axes of the weights by their meaning, and the axis of the values' features."""

    batch: AtomAxis
    head: AtomAxis
    query: AtomAxis
    key: AtomAxis
    feature: AtomAxis
    is_assumed: bool = False  # which axis is texts and which is heads must be verified

    @property
    def of_weights(self) -> tuple[AtomAxis, ...]:
        return self.batch, self.head, self.query, self.key

    @property
    def of_out(self) -> tuple[AtomAxis, ...]:
        return self.batch, self.head, self.query, self.feature


@dataclass(frozen=True)
class WeightedSum:
    """A product of followed weights with values: the operands, and the axes of the result."""

    product: Product
    weights: FollowedStep
    softmax: Softmax
    values: Tensor
    of_values: AxisOrder
    out: AxisOrder
    roles: Roles

    def values_by_head(self) -> Float[Tensor, "batch key_head key d_v"] | None:
        """Return the values; None if they have a further axis."""
        roles = self.roles
        groups = roles.batch, roles.head, roles.key, roles.feature
        return arrange_axes(self.values, self.of_values, groups)

    def by_head(
        self, t: Shaped[Tensor, ...], layout: AxisOrder
    ) -> Float[Tensor, "batch head query key"] | None:
        """Return scores or weights, over all rows and heads."""
        t4 = arrange_axes(t, layout, self.roles.of_weights)
        if t4 is None:
            return None
        return t4.expand([size_of(axis) for axis in self.roles.of_weights])


def roles_of(
    product: Product, step: FollowedStep, is_a: bool, n_rows: int, lengths: Collection[int]
) -> WeightedSum | str:
    """Return a weighted sum with its axes named, or the reason why they are unknown.

    `is_a` says that the weights are the product's first operand; `n_rows` is the batch, `lengths`
    are the numbers of tokens that the run has.
    """
    softmax = step.root
    if not isinstance(softmax, Softmax):
        raise TypeError(f"weights come from a softmax, not from {type(softmax).__name__}")
    labels, others = (product.of_a, product.of_b) if is_a else (product.of_b, product.of_a)
    values = product.b if is_a else product.a
    axis_of = {label: resolve_axis(axis) for label, axis in zip(labels, step.layout, strict=True)}
    axes = axes_of(product, axis_of)
    of_values = layout_of(values, others, axes)
    key = resolve_axis(softmax.layout[softmax.dim])
    summed = [atom for label in product.summed for atom in resolve_axis(axes[label])]
    if product.added is not None:
        return ADDED
    if set(summed) != set(key):
        return WRONG_AXIS
    shared = [atom for axis in of_values for atom in axis]
    weights = [a for axis in softmax.layout for a in resolve_axis(axis) if a not in key]
    feature = tuple(atom for atom in shared if atom not in key and atom not in weights)
    unshared = [atom for atom in weights if atom not in shared]
    assigned = _axes_of_weights(weights, unshared, _key_heads(softmax), n_rows, lengths)
    if isinstance(assigned, str):
        return assigned
    out = tuple(resolve_axis(axes[label]) for label in product.out)
    roles = Roles(*assigned[:3], key, feature, is_assumed=assigned[3])
    return WeightedSum(product, step, softmax, values, of_values, out, roles)


def _key_heads(softmax: Softmax) -> list[object]:
    """Return the atoms that queries and keys share; none if their product is not known."""
    if softmax.scores is None or not isinstance(scores := softmax.scores.root, ScoreProduct):
        return []
    a, b = ({x for axis in side for x in resolve_axis(axis)} for side in (scores.of_a, scores.of_b))
    return list(a & b)


def _axes_of_weights(
    weights: list, atoms: list, shared_by_keys: list, n_rows: int, lengths: Collection[int]
) -> tuple[AtomAxis, AtomAxis, AtomAxis, bool] | str:
    """Return the axes of batch rows, heads and queries among those of the weights.

    The last is True if several axes may be that of the batch; the first of them is taken.
    """
    queries = [atom for atom in atoms if atom not in shared_by_keys]
    if len(queries) > 1 or 1 in lengths:  # a single query has no axis of its own
        queries = [atom for atom in queries if atom.size in lengths]
    if len(queries) > 1:
        return "two of its axes are as long as the text, so the axis of the queries is unknown"
    rest = [atom for atom in weights if atom not in queries]
    if n_rows == 1:
        return (), tuple(rest), tuple(queries), False
    if len(rest) == 1 and rest[0].size > n_rows and not rest[0].size % n_rows:
        rest[0].parts = Atom(n_rows), Atom(rest[0].size // n_rows)
        return rest[0].parts[:1], rest[0].parts[1:], tuple(queries), True
    batch = [atom for atom in rest if atom.size == n_rows]
    if not batch:
        return UNKNOWN_ROWS.format(n_rows)
    heads = tuple(atom for atom in rest if atom is not batch[0])
    return (batch[0],), heads, tuple(queries), len(batch) > 1
