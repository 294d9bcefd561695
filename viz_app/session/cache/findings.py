"""What is worked out of a model or drawn of a run, where it takes too long to be worked out at every rerun."""

from collections.abc import Callable, Hashable

import torch

from models import Scope, Trace
from models.analysis.fixed_vector import vector_changes as changes_of_vector
from models.analysis.jacobian_reach import CHECKED, LayerChoice, Reach, autograd_gap
from models.analysis.jacobian_reach import reach as reach_of
from models.analysis.position_measures import FormulaMeasures, measure
from models.analysis.shuffle import ShuffleTest, shuffle_test
from models.architectures import Model
from models.decoding.greedy_sample import greedy_batch
from models.tokenizers.base import Encoding
from viz_app.drawing.cells import LARGEST_WHOLE
from viz_app.session.cache import store
from viz_app.session.cache.store import Value, cached


def reach(scope: Scope, source: tuple[int, ...], choice: LayerChoice) -> Reach:
    """What one layer over these source tokens lets reach what."""

    def work_out() -> Reach:
        first = source[:CHECKED]
        gap = cached(
            scope, "gap", first, choice, make=lambda: autograd_gap(scope.model, first, choice)
        )
        return reach_of(scope.model, source, choice, gap=gap)

    return cached(scope, "reach", source, choice, make=work_out)


def vector_changes(
    scope: Scope, source: tuple[int, ...], places: tuple[int, ...], others: tuple[int, ...]
) -> torch.Tensor:
    """How much of its fixed vector each of these places of a source can change."""
    return cached(
        scope,
        "vector changes",
        source,
        places,
        others,
        make=lambda: changes_of_vector(scope.model, source, places, others),
    )


def rewritten(
    scope: Scope, source: tuple[int, ...], place: int, others: tuple[int, ...]
) -> tuple[int, int]:
    """In how many trials the model writes something else when the token at a place becomes another, and how many trials there were;
    greedily, each of the `others` in turn."""

    def work_out() -> tuple[int, int]:
        tokens = [token for token in others if token != source[place]]
        changed = [(*source[:place], token, *source[place + 1 :]) for token in tokens]
        rows = torch.tensor([source, *changed], device=scope.model.device)
        original, *texts = greedy_batch(scope.model, rows)
        return sum(text != original for text in texts), len(texts)

    return cached(scope, "rewritten", source, place, others, make=work_out)


def shuffle(
    scope: Scope, name: str, model: Model, row: Encoding, order: tuple[int, ...]
) -> ShuffleTest:
    """What this order does to a row of tokens in a model of these weights, `name` saying whether its positions are there."""
    return cached(
        scope,
        "shuffled",
        name,
        row.ids,
        row.segments,
        order,
        make=lambda: shuffle_test(model, row.ids, order, row.segments),
    )


def trace_finding(trace: Trace, what: Hashable, make: Callable[[], Value]) -> Value:
    """What is worked out of a run without changes: of a long text, of which it takes seconds, once, and not at every rerun."""
    if max(len(row.ids) for row in trace.streams.values()) <= LARGEST_WHOLE:
        return make()
    return store.kept.get(
        (trace.model.fingerprint, "finding", what, tuple(trace.streams.values())), make
    )


def formula_measures(formula: str, n: int, d_model: int, shift: int) -> FormulaMeasures:
    """models.analysis.position_measures.measure, kept: its least squares take up to half a second. No model is in it."""
    return store.kept.get(
        ("formula", formula, n, d_model, shift), lambda: measure(formula, n, d_model, shift)
    )
