"""Edits tried one beside the other: each in a row of one batched pass, all on the same text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from models.analysis.metrics import Metric, logits_of
from models.tokenizers.base import Encoding
from models.trace import Trace
from models.trace.edits import Edit, Edits, HeadOff, Where
from models.trace.outputs import Output

LARGEST_BATCH = 2**25  # logits of one pass (128 MB in float32)


@runtime_checkable
class Runner(Protocol):
    """A runner of batches, such as a Scope."""

    def outputs_batch(
        self,
        rows: Sequence[Mapping[str, Encoding]],
        edits: Sequence[Edit] = (),
        *,
        gradients: bool = False,
    ) -> list[dict[str, Output]]: ...


@dataclass(frozen=True, eq=False)
class HeadEffects:
    """The effect of an edit of each head, alone, on one run.

    `values` gives for each kind of attention (layer, head), or (layer, head, position) of a metric
    with one number a position; `sites` the paths of the layers. A layer with fewer heads than
    others ends in NaN.
    """

    values: dict[str, Float[Tensor, "layer head *position"]]
    sites: dict[str, tuple[str, ...]]
    metric: Metric
    edits: dict[tuple[str, int], Edit]  # by site and head

    @classmethod
    def of(
        cls,
        by_head: Mapping[tuple[str, int], Float[Tensor, "*row"]],
        sites: Sequence[Any],
        metric: Metric,
        edits: Mapping[tuple[str, int], Edit] | None = None,
    ) -> HeadEffects:
        """Return the effects by site and head, set out by kind and layer."""
        kinds: dict[str, list[Any]] = {}
        for site in sites:
            kinds.setdefault(site.kind, []).append(site)
        names = {
            kind: tuple(site.name for site in sorted(several, key=lambda site: site.layer))
            for kind, several in kinds.items()
        }
        values = {kind: _grid(paths, by_head) for kind, paths in names.items()}
        return cls(values, names, metric, dict(edits or {}))


def head_effects(
    scope: Runner,
    run: Trace,
    metric: Metric,
    make: Callable[[Where], Edit] = HeadOff,
) -> HeadEffects:
    """Return the effect of an edit of every head, layer × head for each kind of attention.

    `make` makes the edit of a head, by default the head off; for example `partial(HeadOff,
    baseline="uniform")`, or `partial(Patch, from_run=other)`. The run's own edits stay in force,
    before that of the head.

    Raises:
        ValueError: the model cannot carry out an edit.
    """
    heads = [
        (site, head)
        for site in run.attention.values()
        if site.has_causes
        for head in range(site.n_heads)
    ]
    edits = [make(Where(site=site.name, heads=(head,))) for site, head in heads]
    effects = effects_of(scope, run, [(edit,) for edit in edits], metric)
    by_head = {
        (site.name, head): effect for (site, head), effect in zip(heads, effects, strict=True)
    }
    sites = list({site.name: site for site, _ in heads}.values())
    edit_by_head = {
        (site.name, head): edit for (site, head), edit in zip(heads, edits, strict=True)
    }
    return HeadEffects.of(by_head, sites, metric, edit_by_head)


def effects_of(
    scope: Runner, run: Trace, each: Sequence[Edits], metric: Metric
) -> Float[Tensor, "edits ..."]:
    """Return the metric of several sets of edits, each on its own, from as few passes as fit.

    Raises:
        ValueError: the model cannot carry out an edit.
    """
    streams = run.streams
    before = logits_of(scope.outputs_batch([streams], run.edits)[0])
    # of a model that predicts every position, which is the largest
    n_logits = before.shape[-1] * max(len(row.ids) for row in streams.values())
    n_rows = max(1, LARGEST_BATCH // n_logits)
    effects = []
    for first in range(0, len(each), n_rows):
        part = each[first : first + n_rows]
        edits = (
            replace(edit, where=replace(edit.where, rows=(row,)))
            for row, edits_of_row in enumerate(part)
            for edit in edits_of_row
        )
        outputs = scope.outputs_batch([streams] * len(part), [*run.edits, *edits])
        effects += [metric(before, logits_of(one)) for one in outputs]
    return torch.stack(effects) if effects else torch.empty(0)


def _grid(
    paths: Sequence[str], by_head: Mapping[tuple[str, int], Float[Tensor, "*row"]]
) -> Float[Tensor, "layer head *row"]:
    counts = [sum(name == path for name, _ in by_head) for path in paths]
    one = next(iter(by_head.values()))
    grid = torch.full((len(paths), max(counts), *one.shape), torch.nan)
    for layer, (path, n_heads) in enumerate(zip(paths, counts, strict=True)):
        for head in range(n_heads):
            grid[layer, head] = by_head[path, head]
    return grid
