"""Cached analyses of models and runs that are too slow to repeat at every rerun."""

from collections.abc import Callable, Hashable

import torch

from models import Scope, Trace
from models.analysis.attribution import estimated_effects as guesses_of
from models.analysis.cells import part_effects as parts_of
from models.analysis.effects import HeadEffects
from models.analysis.effects import head_effects as head_effects_of
from models.analysis.fixed_vector import vector_changes as changes_of_vector
from models.analysis.jacobian_reach import N_CHECKED, LayerChoice, Reach, autograd_gap
from models.analysis.jacobian_reach import layer_reach as reach_of
from models.analysis.metrics import Metric
from models.analysis.position_measures import FormulaMeasures, measure_formula
from models.analysis.shuffle import ShuffleTest, shuffle_test
from models.architectures import Model
from models.checkpoint import CheckpointError
from models.decoding.greedy_sample import greedy, greedy_batch
from models.runs.attention_row import AttentionRow
from models.tokenizers.base import Encoding
from models.trace.edits import Edit, Where
from viz_app.drawing.cells import MAX_WHOLE_TOKENS
from viz_app.session.cache import store
from viz_app.session.cache.store import Stored, cached
from viz_app.session.current_run import CurrentRun


def cached_reach(scope: Scope, source: tuple[int, ...], choice: LayerChoice) -> Reach:
    """Return which tokens one layer lets reach which, over these source tokens."""

    def compute() -> Reach:
        first = source[:N_CHECKED]
        gap = cached(
            scope, "gap", first, choice, make=lambda: autograd_gap(scope.model, first, choice)
        )
        return reach_of(scope.model, source, choice, gap=gap)

    return cached(scope, "reach", source, choice, make=compute)


def cached_vector_changes(
    scope: Scope, source: tuple[int, ...], places: tuple[int, ...], others: tuple[int, ...]
) -> torch.Tensor:
    """Return how much each of these source positions can change the fixed vector."""
    return cached(
        scope,
        "vector changes",
        source,
        places,
        others,
        make=lambda: changes_of_vector(scope.model, source, places, others),
    )


def count_rewritten(
    scope: Scope, source: tuple[int, ...], place: int, others: tuple[int, ...]
) -> tuple[int, int]:
    """Return (trials with another output, trials) for replacing the token at a position.

    Each of the `others` replaces it in turn; the model decodes greedily.
    """

    def compute() -> tuple[int, int]:
        tokens = [token for token in others if token != source[place]]
        variants = [(*source[:place], token, *source[place + 1 :]) for token in tokens]
        rows = torch.tensor([source, *variants], device=scope.model.device)
        original, *texts = greedy_batch(scope.model, rows)
        return sum(text != original for text in texts), len(texts)

    return cached(scope, "rewritten", source, place, others, make=compute)


def free_text(run: CurrentRun) -> str:
    """Return a translating model's own greedy output for this run's source, under its changes."""
    scope, spec = run.scope, run.spec
    source = next(iter(run.trace.streams.values())).ids
    edits = run.trace.edits

    def write() -> str:
        steps = greedy(scope.model, source, edits=edits, forced=dict(spec.forced))
        return scope.tokenizer.decode([step.token for step in steps])

    return cached(scope, "free text", source, edits, spec.forced, make=write)


def cached_shuffle(
    run: CurrentRun, name: str, model: Model, row: Encoding, order: tuple[int, ...]
) -> ShuffleTest:
    """Return the effect of this order on a row of tokens in a model, under the run's edits.

    `name` distinguishes the model with its position vectors from the one without.
    """
    edits = run.spec.edits
    return cached(
        run.scope,
        "shuffled",
        name,
        row.ids,
        row.segments,
        order,
        edits,
        make=lambda: shuffle_test(model, row.ids, order, row.segments, edits),
    )


def trace_finding(trace: Trace, what: Hashable, make: Callable[[], Stored]) -> Stored:
    """Return an analysis of a run, cached for long texts, where it takes seconds."""
    if max(len(row.ids) for row in trace.streams.values()) <= MAX_WHOLE_TOKENS:
        return make()
    run = (trace.model.fingerprint, tuple(trace.streams.values()), trace.edits)
    return store.cache_store.get(("finding", *run, what), make)


def cached_head_effects(
    run: CurrentRun, metric: Metric, make: Callable[[Where], Edit], name: str
) -> HeadEffects:
    """Return the effect of the edit that `make` makes of each head; `name` identifies the edit.

    Raises:
        CheckpointError: the model cannot carry out an edit.
    """
    streams = tuple(run.trace.streams.values())
    what = (streams, run.trace.edits, metric, name)
    try:
        return cached(
            run.scope,
            "effects",
            *what,
            make=lambda: head_effects_of(run.scope, run.trace, metric, make),
        )
    except ValueError as error:
        raise CheckpointError(str(error)) from error


def row_finding(row: AttentionRow, what: Hashable, make: Callable[[], Stored]) -> Stored:
    """Return what `make` finds out about a row of attention, cached under the run and the row."""
    return store.cache_store.get(_of_row(row, what), make)


def is_found(row: AttentionRow, what: Hashable) -> bool:
    """Return True if `row_finding` can return it without computing it."""
    return _of_row(row, what) in store.cache_store


def _of_row(row: AttentionRow, what: Hashable) -> Hashable:
    trace = row.trace
    run = (trace.model.fingerprint, tuple(trace.streams.values()), trace.edits)
    return ("row", *run, row.site, row.head, row.decision, what)


def cached_part_effects(
    scope: Scope,
    trace: Trace,
    other: Trace,
    metric: Metric,
    names: tuple[str, ...],
    alignments: dict[str, tuple[tuple[int, int], ...]],
    positions: tuple[int, ...] | None,
    with_heads: bool,
) -> tuple[torch.Tensor | None, HeadEffects | None]:
    """Return the effect of taking each cell of these parts, and each head, from another run."""
    streams = (tuple(trace.streams.values()), tuple(other.streams.values()))
    what = (trace.edits, metric, names, tuple(alignments.items()), positions, with_heads)
    return cached(
        scope,
        "parts",
        *(streams, *what),
        make=lambda: parts_of(
            scope, trace, metric, other, names, alignments, positions, with_heads=with_heads
        ),
    )


def cached_estimated_effects(
    scope: Scope,
    trace: Trace,
    other: Trace,
    exact: HeadEffects,
    alignments: dict[str, tuple[tuple[int, int], ...]],
) -> dict[str, torch.Tensor]:
    """Return the gradient's guess of the effect of taking each head from another run."""
    streams = (tuple(trace.streams.values()), tuple(other.streams.values()))
    what = (trace.edits, exact.metric, tuple(alignments.items()))
    return cached(
        scope,
        "guessed",
        *(streams, *what),
        make=lambda: guesses_of(scope, trace, other, exact, alignments),
    )


def formula_measures(formula: str, n: int, d_model: int, shift: int) -> FormulaMeasures:
    """Return position_measures.measure, cached: its least squares take up to half a second.

    It does not depend on a model.
    """
    return store.cache_store.get(
        ("formula", formula, n, d_model, shift), lambda: measure_formula(formula, n, d_model, shift)
    )
