"""All cells in one batch, against one run per cell with a single patch."""

import math

import pytest
import torch
from small_scopes import MAKERS, fields, scope_of

from models.analysis import LogitDifference, cell_effects
from models.analysis.metrics import logits_of
from models.runs.scope import Scope
from models.trace import Trace
from models.trace.edits import Patch, Where

TEXT, OTHER = "ab cd ef", "ba ga ef"


@pytest.fixture(scope="module")
def scopes() -> dict[str, Scope]:
    return {family: scope_of(family) for family in MAKERS}


def both(scope: Scope) -> tuple[Trace, Trace]:
    """Return two runs; for a translation, with the same target."""
    masked = scope.tokenizer.mask_id is not None
    texts = ("ab [MASK] ef", "ga [MASK] cd") if masked else (TEXT, OTHER)
    run, other = (scope.run(*fields(scope, text)) for text in texts)
    return run, other


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("family", MAKERS)
def test_every_cell_of_the_batch_equals_a_run_with_one_patch(scopes, family):
    scope, metric = scopes[family], LogitDifference(5, 6)
    run, other = both(scope)
    before, largest = logits_of(run.outputs), 0.0
    for stream in scope.model.streams:
        names = [n for n, a in run.activations.items() if a.axes[1] == stream and n != "logits"]
        if not names:
            continue
        effects = cell_effects(scope, run, metric, other, names)
        for i, name in enumerate(names):
            for position in {0, 2, effects.shape[1] - 1}:
                where = Where(activation=name, queries=(position,))
                after = scope.run(*run.fields.values(), edits=[Patch(where, from_run=other)])
                wanted = float(metric(before, logits_of(after.outputs)))
                assert float(effects[i, position]) == pytest.approx(wanted, rel=5e-6, abs=2e-5), (
                    where
                )
        largest = max(largest, float(effects.abs().max()))
    assert largest > 1e-3


def test_a_run_put_into_itself_changes_nothing(scopes):
    scope = scopes["gpt"]
    run = scope.run(TEXT)
    effects = cell_effects(scope, run, LogitDifference(5, 6), run, ["decoder.layers.1.resid_post"])
    assert not effects.any()


def test_an_alignment_defines_which_position_takes_from_which(scopes):
    scope, name, metric = scopes["gpt"], "decoder.layers.0.resid_post", LogitDifference(5, 6)
    run, other = scope.run("abcde"), scope.run("abgf")
    pairs = [(0, 0), (1, 1), (5, 4)]
    effects = cell_effects(scope, run, metric, other, [name], pairs)[0]
    patch = Patch(Where(activation=name, queries=(5,)), from_run=other, alignment=((5, 4),))
    after = scope.run("abcde", edits=[patch])
    wanted = float(metric(logits_of(run.outputs), logits_of(after.outputs)))
    assert float(effects[5]) == pytest.approx(wanted, abs=2e-5)
    assert [math.isnan(float(x)) for x in effects] == [False, False, True, True, True, False]
    with pytest.raises(ValueError, match="6 tokens there and the other 5"):
        cell_effects(scope, run, metric, other, [name])


def test_the_runs_own_edits_stay_in_force(scopes):
    scope, metric = scopes["gpt"], LogitDifference(5, 6)
    names = [f"decoder.layers.{layer}.resid_post" for layer in range(2)]
    other = scope.run("abgdef")
    first = Patch(Where(activation=names[0], queries=(3,)), from_run=other)
    run = scope.run("abcdef", edits=[first])
    effects = cell_effects(scope, run, metric, other, names)
    assert float(effects[0, 3]) == 0
    second = Patch(Where(activation=names[1], queries=(6,)), from_run=other)
    after = scope.run("abcdef", edits=[first, second])
    wanted = float(metric(logits_of(run.outputs), logits_of(after.outputs)))
    assert float(effects[1, 6]) == pytest.approx(wanted, abs=2e-5)


def test_a_pass_that_is_too_large_is_split(scopes, monkeypatch):
    scope = scopes["transformer"]
    run, other = both(scope)
    names = [f"encoder.layers.0.{name}" for name in ("resid_pre", "resid_post")]
    whole = cell_effects(scope, run, LogitDifference(5, 6), other, names)
    monkeypatch.setattr("models.analysis.cells.MAX_BATCH_LOGITS", 2 * 11 * 9)
    parts = cell_effects(scope, run, LogitDifference(5, 6), other, names)
    torch.testing.assert_close(parts, whole, atol=1e-5, rtol=1e-4)


def test_an_activation_that_cannot_be_changed_is_an_error(scopes):
    scope = scopes["gpt"]
    run, other = scope.run("abcdef"), scope.run("abgdef")
    name = "decoder.layers.0.resid_pre"
    run.activations["told"] = other.activations["told"] = other.activations[name]
    run.activations["told"] = run.activations[name]
    with pytest.raises(ValueError, match="'told' is not an activation"):
        cell_effects(scope, run, LogitDifference(5, 6), other, ["told"])
