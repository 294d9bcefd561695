"""Parts of one run put into another, one at a time: cells and heads of all layers in few passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor

from models.analysis.effects import MAX_BATCH_LOGITS, HeadEffects, Runner
from models.analysis.metrics import Metric, logits_of
from models.trace import AttentionSite, Trace
from models.trace.edits import ActivationPart, AttentionPart, Edit

SLOPE_STEP = 1e-2  # of the way from one head output to another, for a slope

PositionPairs = Sequence[tuple[int, int]]  # (position here, position in the other run)
PositionsByName = Mapping[str, Sequence[tuple[int, int]]]  # name → (batch row, position or head)


@dataclass(frozen=True, eq=False)
class _OneEach(Edit, stored=False):
    """Give each batch row the vector of its own cell, or the output of its own head.

    `met` are the places that it was offered.
    """

    cells: PositionsByName = field(default_factory=dict)  # of intermediates
    vectors: Mapping[str, Tensor] = field(default_factory=dict)  # (cell, feature)
    heads: PositionsByName = field(default_factory=dict)  # of attentions
    outputs: Mapping[str, Tensor] = field(default_factory=dict)  # (head, query here, feature)
    queries: Mapping[str, Sequence[int]] = field(default_factory=dict)  # those here
    met: set[str] = field(default_factory=set)

    __hash__ = object.__hash__

    def changes(self, what: str) -> bool:
        return bool({"activation": self.cells, "head_out": self.heads}.get(what))

    def may_change(self, name: str) -> bool:
        return name in self.cells

    def of_row(self, row: int) -> Edit | None:
        cells, vectors = _in_row(self.cells, self.vectors, row)
        heads, outputs = _in_row(self.heads, self.outputs, row)
        return replace(self, cells=cells, vectors=vectors, heads=heads, outputs=outputs)

    def activation(
        self, value: Float[Tensor, "row token feature"], part: ActivationPart
    ) -> Float[Tensor, "row token feature"]:
        """Put the vectors in; a recurrence comes one token at a time."""
        if part.name not in self.cells:
            return value
        self.met.add(part.name)
        start, n = part.tokens[0] if len(part.tokens) else 0, len(part.tokens)
        rows, tokens = torch.tensor(self.cells[part.name], device=value.device).T
        here = (tokens >= start) & (tokens < start + n)
        value = value.clone()
        value[rows[here], tokens[here] - start] = self.vectors[part.name].to(value)[here]
        return value

    def head_out(
        self, head_out: Float[Tensor, "row head query d_head"], part: AttentionPart
    ) -> Float[Tensor, "row head query d_head"]:
        """Put the outputs in, at the queries of this pass."""
        if part.site not in self.heads:
            return head_out
        self.met.add(part.site)
        start, n = part.queries[0] if len(part.queries) else 0, len(part.queries)
        rows, heads = torch.tensor(self.heads[part.site], device=head_out.device).T[:, :, None]
        queries = torch.tensor(self.queries[part.site], device=head_out.device)
        here = (queries >= start) & (queries < start + n)
        head_out = head_out.clone()
        outputs = self.outputs[part.site].to(head_out)
        head_out[rows, heads, queries[here] - start] = outputs[:, here]
        return head_out


def _in_row(
    places: PositionsByName, tensors: Mapping[str, Tensor], row: int
) -> tuple[PositionsByName, Mapping[str, Tensor]]:
    """Return the places of one batch row, as if it were a batch of its own, and their tensors."""
    alone: dict[str, list[tuple[int, int]]] = {}
    parts: dict[str, Tensor] = {}
    for name, pairs in places.items():
        if here := [i for i, (of, _) in enumerate(pairs) if of == row]:
            alone[name] = [(0, pairs[i][1]) for i in here]
            parts[name] = tensors[name][here]
    return alone, parts


@dataclass(frozen=True)
class _Part:
    """A cell of an intermediate, or a head of an attention, with its replacement."""

    name: str
    number: int
    replacement: Tensor  # (feature), or (query here, feature)
    queries: Sequence[int] | None = None  # of a head


def cell_effects(
    scope: Runner,
    run: Trace,
    metric: Metric,
    other: Trace,
    names: Sequence[str],
    alignment: PositionPairs = (),
    positions: Sequence[int] | None = None,
) -> Float[Tensor, "name position *row"]:
    """Return the effect of patching each position of these intermediates from another run.

    Each is a cell of the residual stream or the output of a feed-forward, all of one stream. The
    run's own edits stay in force. `alignment` holds (position here, position in the other run)
    pairs; positions without a counterpart are NaN, as are those not in `positions`. A cell that is
    the same in both runs changes nothing, and costs nothing.

    Raises:
        ValueError: the runs have different numbers of tokens there and no alignment is given, or
            an intermediate cannot be changed.
    """
    n = len(run.activations[names[0]].tokens)
    cells, unchanged = _cells(run, other, names, alignment, positions)
    values = _effects(scope, run, metric, cells)
    return _cell_grid(names, n, cells, unchanged, values)


def part_effects(
    scope: Runner,
    run: Trace,
    metric: Metric,
    other: Trace,
    names: Sequence[str],
    alignments: Mapping[str, PositionPairs] | None = None,
    positions: Sequence[int] | None = None,
    *,
    with_heads: bool = True,
) -> tuple[Float[Tensor, "name position *row"] | None, HeadEffects | None]:
    """Return the effects of taking each cell, as cell_effects, and each head, from the same passes.

    `alignments` holds the pairs of each stream whose token counts differ. The effect of a head
    whose output is the same in both runs is 0, and costs nothing.

    Raises:
        ValueError: as cell_effects.
    """
    alignments = alignments or {}
    cells, unchanged = [], []
    if names:
        stream = run.activations[names[0]].axes[1]
        cells, unchanged = _cells(run, other, names, alignments.get(stream, ()), positions)
    sites = [site for site in run.attention.values() if site.has_causes] if with_heads else []
    heads = _different_heads(run, other, sites, alignments)
    values = _effects(scope, run, metric, [*cells, *heads])
    grid = None
    if names:
        n = len(run.activations[names[0]].tokens)
        grid = _cell_grid(names, n, cells, unchanged, values[: len(cells)])
    if not sites:
        return grid, None
    by_head = {
        (one.name, one.number): v for one, v in zip(heads, values[len(cells) :], strict=True)
    }
    return grid, HeadEffects.of(
        {
            (site.name, head): by_head.get((site.name, head), _nothing(run, metric))
            for site in sites
            for head in range(site.n_heads)
        },
        sites,
        metric,
    )


def _different_heads(
    run: Trace,
    other: Trace,
    sites: Sequence[AttentionSite],
    alignments: Mapping[str, PositionPairs],
) -> list[_Part]:
    """Return the output in the other run of each head whose output differs."""
    heads = []
    for site in sites:
        stream = site.query_stream
        pairs = aligned_positions(run, other, stream, alignments.get(stream, ()))
        ours, theirs = (list(one) for one in zip(*pairs, strict=True)) if pairs else ([], [])
        our_heads, their_heads = (t.attention[site.name].out[0].float() for t in (run, other))
        heads += [
            _Part(site.name, head, their_heads[head, theirs], ours)
            for head in range(site.n_heads)
            if not torch.equal(our_heads[head, ours], their_heads[head, theirs])
        ]
    return heads


def aligned_positions(
    run: Trace, other: Trace, stream: str, alignment: PositionPairs | None = None
) -> list[tuple[int, int]]:
    """Return which position of another run belongs to each position of this one.

    Raises:
        ValueError: the runs have different numbers of tokens there and no alignment is given.
    """
    n, n_other = (len(trace.streams[stream].ids) for trace in (run, other))
    if not alignment and n != n_other:
        raise ValueError(
            f"this run has {n} tokens there and the other {n_other}; give both the same number, or "
            "an alignment"
        )
    return list(alignment or ((i, i) for i in range(n)))


def _cells(
    run: Trace,
    other: Trace,
    names: Sequence[str],
    alignment: PositionPairs,
    positions: Sequence[int] | None,
) -> tuple[list[_Part], list[tuple[str, int]]]:
    """Return the cells that differ, and those that are the same in both runs."""
    differ, same = [], []
    pairs = aligned_positions(run, other, run.activations[names[0]].axes[1], alignment)
    for name in names:
        our_vectors, their_vectors = (trace.activations[name].value[0] for trace in (run, other))
        for our_position, their_position in pairs:
            if positions is not None and our_position not in positions:
                continue
            if torch.equal(our_vectors[our_position], their_vectors[their_position]):
                same.append((name, our_position))
            else:
                differ.append(_Part(name, our_position, their_vectors[their_position]))
    return differ, same


def _cell_grid(
    names: Sequence[str],
    n: int,
    cells: Sequence[_Part],
    unchanged: Sequence[tuple[str, int]],
    values: Float[Tensor, "cell ..."],
) -> Float[Tensor, "name position *row"]:
    effects = torch.full((len(names), n, *values.shape[1:]), torch.nan)
    for name, position in unchanged:
        effects[names.index(name), position] = 0.0
    for cell, value in zip(cells, values, strict=True):
        effects[names.index(cell.name), cell.number] = value
    return effects


def head_slope(
    scope: Runner,
    run: Trace,
    metric: Metric,
    other: Trace,
    head: tuple[str, int],
    alignment: PositionPairs = (),
    step: float = SLOPE_STEP,
) -> float:
    """Return the slope of the metric as a head (site, number) goes towards another run's.

    It is a central difference over `step`, a share of the way; 1 is the whole way.

    Raises:
        ValueError: as cell_effects.
    """
    name, number = head
    pairs = aligned_positions(run, other, run.attention[name].query_stream, alignment)
    ours, theirs = (list(one) for one in zip(*pairs, strict=True))
    our_head, their_head = (t.attention[name].out[0][number].float() for t in (run, other))
    way = their_head[theirs] - our_head[ours]
    parts = [_Part(name, number, our_head[ours] + share * way, ours) for share in (step, -step)]
    more, less = _effects(scope, run, metric, parts)
    return float(more - less) / (2 * step)


def _nothing(run: Trace, metric: Metric) -> Float[Tensor, "*row"]:
    before = logits_of(run.outputs)
    return torch.zeros_like(metric(before, before))


def _effects(
    scope: Runner, run: Trace, metric: Metric, parts: Sequence[_Part]
) -> Float[Tensor, "part ..."]:
    """Return the effect of each part alone, from as few passes as fit."""
    before = logits_of(run.outputs)
    size = before.shape[-1] * max(len(row.ids) for row in run.streams.values())
    n_rows = max(1, MAX_BATCH_LOGITS // size)
    effects = []
    for first in range(0, len(parts), n_rows):
        after = _pass(scope, run, parts[first : first + n_rows])
        effects += [metric(before, logits) for logits in after]
    empty = _nothing(run, metric)
    return torch.stack(effects) if effects else empty.new_zeros(0, *empty.shape)


def _pass(scope: Runner, run: Trace, parts: Sequence[_Part]) -> list[Float[Tensor, "row option"]]:
    """Return the logits with each of these parts put in its place, from one pass."""
    places: dict[bool, dict[str, list[tuple[int, int]]]] = {True: {}, False: {}}
    vectors_by_name: dict[str, list[Tensor]] = {}
    queries: dict[str, Sequence[int]] = {}
    for row, part in enumerate(parts):
        is_head = part.queries is not None
        places[is_head].setdefault(part.name, []).append((row, part.number))
        vectors_by_name.setdefault(part.name, []).append(part.replacement)
        if part.queries is not None:
            queries[part.name] = part.queries
    stacked = {name: torch.stack(several) for name, several in vectors_by_name.items()}
    replacement = _OneEach(
        cells=places[False],
        vectors={name: stacked[name] for name in places[False]},
        heads=places[True],
        outputs={name: stacked[name] for name in places[True]},
        queries=queries,
    )
    outputs = scope.outputs_batch([run.streams] * len(parts), [*run.edits, replacement])
    if missing := [name for name in vectors_by_name if name not in replacement.met]:
        raise ValueError(f"{missing[0]!r} is not an activation that can be changed")
    return [logits_of(one) for one in outputs]
