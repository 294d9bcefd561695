"""Edits tried side by side: each in a row of one batched pass, all on the same text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.analysis.metrics import (
    Divergence,
    LogitDifference,
    LogProbability,
    Metric,
    logits_of,
)
from models.tokenizers.base import Encoding
from models.trace import Trace
from models.trace.edits import Edit, Edits, HeadOff, Where
from models.trace.outputs import Output
from models.trace.reuse import LayerOutputs

MAX_BATCH_LOGITS = 2**25  # logits of one pass (128 MB in float32)
# weights times tokens of all rows: some 0.5 s, half of which is saved
MIN_REUSING_WORK = 2**34
MIN_REUSING_EDITS = 9  # edits, four of which test whether reuse works
LOGIT_ROUNDING = 1e-3  # of the largest logit, where a sum is taken in another order


@runtime_checkable
class Runner(Protocol):
    """A runner of batches, such as a Scope."""

    @property
    def model(self) -> nn.Module: ...

    def outputs_batch(
        self,
        rows: Sequence[Mapping[str, Encoding]],
        edits: Sequence[Edit] = (),
        *,
        gradients: bool = False,
        layers: AbstractContextManager | None = None,
    ) -> list[dict[str, Output]]: ...


@dataclass(frozen=True, eq=False)
class HeadEffects:
    """The effect of an edit of each head, alone, on one run.

    `values` gives for each kind of attention (layer, head), or (layer, head, position) for a metric
    with one number per position; `sites` the paths of the layers. A layer with fewer heads than
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
    scope: Runner, run: Trace, edit_sets: Sequence[Edits], metric: Metric
) -> Float[Tensor, "edits ..."]:
    """Return the metric of several sets of edits, each on its own, from as few passes as fit.

    Many edits of single layers are made in passes that begin at the first layer edited, if that
    gives the logits of whole passes.

    Raises:
        ValueError: the model cannot carry out an edit.
    """
    passes = _Passes(scope, run, edit_sets, metric)
    # as for a model that predicts at every position, which has the most logits
    n_logits = passes.before.shape[-1] * max(len(row.ids) for row in run.streams.values())
    n_rows = max(1, MAX_BATCH_LOGITS // n_logits)
    effects: dict[int, Tensor] = {}
    for begin in sorted(set(passes.begins)):
        group = [i for i, other in enumerate(passes.begins) if other == begin]
        for first in range(0, len(group), n_rows):
            numbers = group[first : first + n_rows]
            logits = passes.logits([edit_sets[i] for i in numbers], begin)
            for i, one in zip(numbers, logits, strict=True):
                effects[i] = metric(passes.before, one)
    return torch.stack([effects[i] for i in range(len(edit_sets))]) if effects else torch.empty(0)


class _Passes:
    """Passes over a run's text, one row for each set of edits.

    `begins` gives the first layer that has to be computed for each set.
    """

    def __init__(self, scope: Runner, run: Trace, each: Sequence[Edits], metric: Metric) -> None:
        self._scope, self._run = scope, run
        self._layers = LayerOutputs(scope.model, run.attention) if self._pays(len(each)) else None
        kept = self._layers and self._layers.kept()
        self.before = logits_of(scope.outputs_batch([run.streams], run.edits, layers=kept)[0])
        self._position = self._only_row(metric)
        self.begins = [0] * len(each)
        if self._layers is not None and self._layers.is_complete:
            begins = [self._layers.first_edited(edits) for edits in each]
            later = sorted((begin, i) for i, begin in enumerate(begins) if begin)
            if all(self._agrees(each[i], begin) for begin, i in (*later[:1], *later[-1:])):
                self.begins = begins

    def logits(self, each: Sequence[Edits], begin: int = 0) -> list[Float[Tensor, "row option"]]:
        """Return the logits under each set of edits, from a pass that begins at this layer."""
        edits = (
            replace(edit, where=replace(edit.where, rows=(row,)))
            for row, edits_of_row in enumerate(each)
            for edit in edits_of_row
        )
        reused = None
        if begin and self._layers is not None:
            reused = self._layers.reused(begin, len(each), self._position)
        outputs = self._scope.outputs_batch(
            [self._run.streams] * len(each), [*self._run.edits, *edits], layers=reused
        )
        return [logits_of(one) for one in outputs]

    def _pays(self, n_sets: int) -> bool:
        """Return True if this many sets of edits are faster in passes that begin later."""
        if n_sets < MIN_REUSING_EDITS or self._run.edits:
            return False
        n_tokens = sum(len(row.ids) for row in self._run.streams.values())
        n_weights = sum(weight.numel() for weight in self._scope.model.parameters())
        return n_weights * n_tokens * n_sets >= MIN_REUSING_WORK

    def _only_row(self, metric: Metric) -> int | None:
        """Return the only row that a metric reads of logits that are those of all tokens."""
        if not isinstance(metric, LogProbability | LogitDifference | Divergence):
            return None
        n_tokens = [len(row.ids) for row in self._run.streams.values()]
        return metric.position if n_tokens == [len(self.before)] else None

    def _agrees(self, edits: Edits, begin: int) -> bool:
        """Return True if a pass that begins later gives the logits of a whole one."""
        whole = torch.stack(self.logits([edits] * 2))
        try:
            shortened = torch.stack(self.logits([edits] * 2, begin))
        except (RuntimeError, LookupError, TypeError, AttributeError, ValueError):
            return False  # a layer passes on more than its output
        if self._position is not None:
            shortened, whole = shortened[:, self._position], whole[:, self._position]
        largest = float(whole.abs().max())
        return torch.allclose(shortened, whole, rtol=0, atol=LOGIT_ROUNDING * largest)


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
