"""Cells of one run put into another, one at a time: all positions of all layers in few passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from models.analysis.effects import LARGEST_BATCH, Runner
from models.analysis.metrics import Metric, logits_of
from models.trace import Trace
from models.trace.edits import ActivationPart, Edit

Cells = Mapping[str, Sequence[tuple[int, int]]]  # intermediate → (batch row, position)


@dataclass(frozen=True, eq=False)
class _OneEach(Edit, stored=False):
    """Give each batch row the vectors of its own cells.

    `met` are those of its intermediates that it was offered.
    """

    cells: Cells = field(default_factory=dict)
    vectors: Mapping[str, Tensor] = field(default_factory=dict)  # (cell, feature)
    met: set[str] = field(default_factory=set)

    __hash__ = object.__hash__

    def activation(
        self, value: Float[Tensor, "row token feature"], part: ActivationPart
    ) -> Float[Tensor, "row token feature"]:
        """Put the vectors in; a recurrent decoder comes one token at a time."""
        if part.name not in self.cells:
            return value
        self.met.add(part.name)
        start, n = part.tokens[0] if len(part.tokens) else 0, len(part.tokens)
        rows, tokens = torch.tensor(self.cells[part.name], device=value.device).T
        here = (tokens >= start) & (tokens < start + n)
        value = value.clone()
        value[rows[here], tokens[here] - start] = self.vectors[part.name].to(value)[here]
        return value


def cell_effects(
    scope: Runner,
    run: Trace,
    metric: Metric,
    other: Trace,
    names: Sequence[str],
    alignment: Sequence[tuple[int, int]] = (),
) -> Float[Tensor, "name position *row"]:
    """Return the effect of patching each position of these intermediates from another run.

    Each is a cell of the residual stream or the output of a feed-forward, all of one stream. The
    run's own edits stay in force. `alignment` holds (position here, position in the other run)
    pairs; positions without a counterpart are NaN. A cell that is the same in both runs changes
    nothing, and costs nothing.

    Raises:
        ValueError: the runs have different numbers of tokens there and no alignment is given, or
            an intermediate cannot be changed.
    """
    n, n_other = (len(trace.activations[names[0]].tokens) for trace in (run, other))
    if not alignment and n != n_other:
        raise ValueError(
            f"this run has {n} tokens there and the other {n_other}; give both the same number, or "
            "an alignment"
        )
    pairs = list(alignment) or [(i, i) for i in range(n)]
    before = logits_of(scope.outputs_batch([run.streams], run.edits)[0])
    unchanged = torch.zeros_like(metric(before, before))
    effects = torch.full((len(names), n, *unchanged.shape), torch.nan)
    taken = {name: other.activations[name].value[0] for name in names}
    cells: list[tuple[int, int, int]] = []
    for i, name in enumerate(names):
        own = run.activations[name].value[0]
        for here, there in pairs:
            effects[i, here] = 0.0
            if not torch.equal(own[here], taken[name][there]):
                cells.append((i, here, there))
    size = before.shape[-1] * max(len(row.ids) for row in run.streams.values())
    n_rows = max(1, LARGEST_BATCH // size)
    for first in range(0, len(cells), n_rows):
        part = cells[first : first + n_rows]
        after = _pass(scope, run, [(names[i], here, taken[names[i]][j]) for i, here, j in part])
        for (i, here, _), logits in zip(part, after, strict=True):
            effects[i, here] = metric(before, logits)
    return effects


def _pass(
    scope: Runner, run: Trace, cells: Sequence[tuple[str, int, Tensor]]
) -> list[Float[Tensor, "row option"]]:
    """Return the logits with each of these vectors put in its place, from one pass."""
    by_name: dict[str, list[tuple[int, int]]] = {}
    vectors: dict[str, list[Tensor]] = {}
    for row, (name, position, vector) in enumerate(cells):
        by_name.setdefault(name, []).append((row, position))
        vectors.setdefault(name, []).append(vector)
    put = _OneEach(cells=by_name, vectors={name: torch.stack(v) for name, v in vectors.items()})
    outputs = scope.outputs_batch([run.streams] * len(cells), [*run.edits, put])
    if missing := [name for name in by_name if name not in put.met]:
        raise ValueError(f"{missing[0]!r} is not an activation that can be changed")
    return [logits_of(one) for one in outputs]
