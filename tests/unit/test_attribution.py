"""Attributions, and the identity that each must satisfy."""

import pytest
import torch
import torch.nn.functional as F
from hub_models import own_module_of_readme
from small_scopes import MAKERS, fields, scope_of

from models.analysis import (
    LogitDifference,
    attention_gradients,
    attribution_patching,
    effects_of,
    flow,
    integrated_gradients,
    logit_parts,
    positive_mean,
    rollout,
    value_zeroing,
)
from models.analysis.attribution import IntegratedGradients, estimated_effects
from models.analysis.cells import head_slope, part_effects
from models.analysis.metrics import logits_of
from models.runs.scope import Scope
from models.trace.edits import HeadOff, Where, ZeroValue
from models.trace.edits.gradients import WeightGates

TEXT, OTHER, METRIC = "ab cd ef", "ab ga ef", LogitDifference(5, 6)
WRITERS = ["transformer", "gpt"]


@pytest.fixture(scope="module")
def scopes() -> dict[str, Scope]:
    return {family: scope_of(family) for family in MAKERS if family != "bert"}


@pytest.fixture(scope="module")
def own_module() -> Scope:
    lines: dict = {}
    exec(own_module_of_readme(), lines)
    torch.manual_seed(1)
    return lines["make_scope"]()


@pytest.mark.parametrize("family", ["transformer", "seq2seq", "gpt", "xlnet"])
def test_gradient_times_attention_is_a_finite_difference_in_one_weight(scopes, family):
    scope = scopes[family]
    scope.model.double()
    try:
        run = scope.run(*fields(scope, TEXT))
        found = attention_gradients(scope, run, METRIC)
        before = logits_of(scope.outputs_batch([run.streams])[0])
        for name, site in run.attention.items():
            assert found[name].shape == (site.n_heads, site.n_query, site.n_key)
            head, query, key = (
                int(i) for i in (found[name].abs() == found[name].abs().max()).nonzero()[0]
            )
            sides = []
            for step in (1e-3, -1e-3):
                gate = torch.ones(1, *found[name].shape)
                gate[0, head, query, key] += step
                moved = scope.outputs_batch([run.streams], [WeightGates(gates={name: gate})])[0]
                sides.append(float(METRIC(before, logits_of(moved))))
            slope = (sides[0] - sides[1]) / 2e-3
            assert slope == pytest.approx(float(found[name][head, query, key]), rel=0.02, abs=1e-3)
            assert not found[name][~site.allowed(0, None)].any()
        means = positive_mean(found)
        assert all((mean >= 0).all() for mean in means.values())
    finally:
        scope.model.float()


def test_the_error_of_integrated_gradients_is_a_share_of_the_difference():
    parts = {"a": torch.tensor([[[0.5, 1.0]]]), "b": torch.tensor([[[0.25]]])}
    assert IntegratedGradients(parts, 2.0).error == pytest.approx(0.125)
    assert IntegratedGradients(parts, -2.0).error == pytest.approx(1.875)


def test_a_head_that_leads_away_takes_nothing_from_one_that_leads_there():
    """The mean over heads is taken of the positive parts (Chefer et al. 2021)."""
    gradients = torch.tensor([[[3.0, -1.0]], [[-3.0, -1.0]]])
    assert positive_mean({"a": gradients})["a"].tolist() == [[1.5, 0.0]]


@pytest.mark.parametrize("family", ["transformer", "seq2seq", "gpt"])
def test_integrated_gradients_sum_to_the_difference_from_their_baseline(scopes, family):
    scope = scopes[family]
    run = scope.run(*fields(scope, TEXT))
    name = list(run.attention)[-1]
    found = integrated_gradients(scope, run, METRIC, [name], steps=64)
    off = effects_of(scope, run, [(HeadOff(name),)], METRIC)[0]
    assert found.total == pytest.approx(-float(off), rel=1e-3, abs=1e-3)
    assert found.error < 0.02 or abs(found.sum - found.total) < 1e-2
    assert found.parts[name].abs().max() > 1e-3


@pytest.mark.parametrize("family", ["transformer", "gpt"])
def test_attribution_patching_beside_exact_patching(scopes, family):
    scope = scopes[family]
    run = scope.run(*fields(scope, TEXT))
    other = scope.run(*fields(scope, OTHER))
    both = attribution_patching(scope, run, other, METRIC)
    assert {kind: t.shape for kind, t in both.estimated.items()} == {
        k: t.shape for k, t in both.exact.items()
    }
    assert -1 <= both.r <= 1
    itself = attribution_patching(scope, run, run, METRIC)
    # as a batch and alone, a matrix product may round otherwise
    assert all(
        t.abs().max() < 1e-4 for found in (itself.estimated, itself.exact) for t in found.values()
    )
    if family == "gpt":  # what reads the last layer's head outputs is all but linear near the run
        last = both.exact["self"][-1]
        assert torch.sign(last[last.abs().argmax()]) == torch.sign(
            both.estimated["self"][-1][last.abs().argmax()]
        )


@pytest.mark.parametrize("family", ["transformer", "seq2seq", "gpt", "xlnet"])
def test_a_guess_is_the_slope_towards_the_other_run(scopes, family):
    """The slope is taken in double precision from two passes in which the head moves a thousandth of the way; lengths differ."""
    scope = scopes[family]
    scope.model.double()
    try:
        run, other = (scope.run(*fields(scope, text)) for text in (TEXT, "ab ga ab ef"))
        stream = run.streams[scope.model.fields[0].stream]
        n, m = len(stream.ids), len(other.streams[scope.model.fields[0].stream].ids)
        pairs = {scope.model.fields[0].stream: [(0, 0), *((n - i, m - i) for i in (2, 1))]}
        _, exact = part_effects(scope, run, METRIC, other, (), pairs)
        assert exact is not None
        estimated = estimated_effects(scope, run, other, exact, pairs)
        largest = 0.0
        for kind, paths in exact.sites.items():
            for layer, path in enumerate(paths):
                aligned = pairs.get(run.attention[path].query_stream, ())
                for head in range(run.attention[path].n_heads):
                    slope = head_slope(scope, run, METRIC, other, (path, head), aligned, 1e-3)
                    value = float(estimated[kind][layer, head])
                    assert slope == pytest.approx(value, rel=0.02, abs=2e-3), (path, head)
                    largest = max(largest, abs(value))
        assert largest > 0.02
    finally:
        scope.model.float()


def test_heads_of_a_module_whose_intermediates_cannot_be_changed_are_guessed(own_module):
    scope = own_module
    run, other, metric = scope.run("abcd"), scope.run("abce"), LogitDifference(2, 3)
    both = attribution_patching(scope, run, other, metric)
    last = list(run.attention)[-1], 0
    slope = head_slope(scope, run, metric, other, last, ((3, 3),), 1e-2)
    guess = float(both.estimated["self"][1, 0])
    assert guess == pytest.approx(slope, rel=0.02)
    assert abs(guess) > 1e-3


def test_a_gradient_passes_through_the_attention_of_later_layers_of_a_module(own_module):
    scope = own_module
    run, metric, step = scope.run("abcd"), LogitDifference(2, 3), 0.1
    name, *_ = run.attention
    found = attention_gradients(scope, run, metric)[name]
    before = logits_of(scope.outputs_batch([run.streams])[0])
    for head, values in enumerate(found):
        query, key = divmod(int(values.abs().argmax()), values.shape[1])
        sides = []
        for change in (step, -step):
            gate = torch.ones(1, *found.shape)
            gate[0, head, query, key] += change
            moved = scope.outputs_batch([run.streams], [WeightGates(gates={name: gate})])[0]
            sides.append(float(metric(before, logits_of(moved))))
        slope = (sides[0] - sides[1]) / (2 * step)
        assert slope == pytest.approx(float(values[query, key]), rel=0.02)


@pytest.mark.parametrize("family", WRITERS)
def test_the_parts_of_a_logit_difference_sum_to_it(scopes, family):
    scope = scopes[family]
    run = scope.run(*fields(scope, TEXT))
    for position in (0, 3, -1):
        parts = logit_parts(scope.model, run, 5, 6, position)
        logits = run.next_token.logits[position]
        assert parts.total == pytest.approx(float(logits[5] - logits[6]), abs=1e-5)
        assert parts.sum == pytest.approx(parts.total, abs=1e-3)
        assert all(len(values) == 3 for values in parts.heads.values())
        stream = scope.model.writes
        assert set(parts.heads) == {n for n, s in run.attention.items() if s.query_stream == stream}


@pytest.mark.parametrize("family", ["seq2seq", "attention only", "xlnet"])
def test_a_model_without_a_residual_stream_to_sum_over(scopes, family):
    scope = scopes[family]
    with pytest.raises(ValueError, match="not a sum over a residual stream"):
        logit_parts(scope.model, scope.run(*fields(scope, TEXT)), 5, 6, 0)


@pytest.mark.parametrize(
    ("family", "kind"),
    [("gpt", "self"), ("transformer", "decoder_self"), ("transformer", "encoder_self")],
)
def test_the_rows_of_a_rollout_sum_to_1(scopes, family, kind):
    run = scopes[family].run(*fields(scopes[family], TEXT))
    found = rollout(run, kind)
    torch.testing.assert_close(found.sum(-1), torch.ones(found.shape[:2]))
    first, *_ = (site for site in run.attention.values() if site.kind == kind)
    mean = first.weights().mean(0)
    torch.testing.assert_close(found[0], 0.5 * mean + 0.5 * torch.eye(len(mean)))
    if len(found) > 1 and kind != "encoder_self":
        assert not found.triu(1).any()
    with pytest.raises(ValueError, match="no self-attention of kind 'cross'"):
        rollout(run, "cross")


def test_a_rollout_multiplies_the_later_layer_from_the_left(scopes):
    run = scopes["gpt"].run(*fields(scopes["gpt"], TEXT))
    first, second, *_ = (site for site in run.attention.values() if site.kind == "self")
    steps = [
        0.5 * site.weights().mean(0) + 0.5 * torch.eye(site.n_query) for site in (first, second)
    ]
    assert not torch.allclose(steps[1] @ steps[0], steps[0] @ steps[1], atol=1e-3)
    torch.testing.assert_close(rollout(run, "self")[1], steps[1] @ steps[0])


@pytest.mark.parametrize(
    ("family", "kind"),
    [("gpt", "self"), ("transformer", "decoder_self"), ("transformer", "encoder_self")],
)
def test_a_flow_is_within_every_cut_and_reaches_what_a_rollout_reaches(scopes, family, kind):
    run = scopes[family].run(*fields(scopes[family], TEXT))
    found, mixed = flow(run, kind), rollout(run, kind)
    sites = sorted((s for s in run.attention.values() if s.kind == kind), key=lambda s: s.layer)
    steps = [
        0.5 * site.weights().mean(0).double() + 0.5 * torch.eye(site.n_query) for site in sites
    ]
    n = len(found)
    for query in range(n):
        for key in range(n):
            # cuts: all that leaves the query, all that reaches the key, and between two layers
            assert found[query, key] <= min(1, float(steps[0][:, key].sum())) + 1e-9
            reach = (mixed[-1][query] > 0) if len(steps) == 1 else (mixed[-2][:, key] > 0)
            assert found[query, key] <= float(steps[-1][query, reach].sum()) + 1e-9
    assert ((found > 0) == (mixed[-1] > 0)).all()
    assert (found >= mixed[-1].double() - 1e-6).all()  # what a rollout mixes is one flow
    if (
        len(steps) == 2
    ):  # the path through each token in between carries the smaller of its two edges
        ways = torch.minimum(steps[1][:, :, None], steps[0][None]).sum(1)
        torch.testing.assert_close(found.double(), ways, atol=1e-6, rtol=0)
    if len(steps) == 1:
        torch.testing.assert_close(found.double(), steps[0], atol=1e-6, rtol=0)
    torch.testing.assert_close(flow(run, kind, [2]), found[2:3])
    with pytest.raises(ValueError, match="no self-attention of kind 'cross'"):
        flow(run, "cross")


@pytest.mark.parametrize("family", ["gpt", "transformer"])
def test_value_zeroing_token_by_token(scopes, family):
    scope, texts = scopes[family], fields(scopes[family], TEXT)
    run = scope.run(*texts)
    name = [n for n in run.attention if "decoder.layers.0" in n][-1]
    found = value_zeroing(scope, run, name)
    after = "decoder.layers.0.resid_post"
    for key in range(run.attention[name].n_key):
        alone = scope.run(*texts, edits=[ZeroValue(Where(site=name), token=key)])
        pair = (run.activations[after].value[0], alone.activations[after].value[0])
        torch.testing.assert_close(
            found[:, key], 1 - F.cosine_similarity(*pair, dim=-1), atol=1e-5, rtol=1e-3
        )
    assert found.max() > 1e-3
    assert found[~run.attention[name].allowed()].abs().max() < 1e-6 if family == "gpt" else True


@pytest.mark.parametrize(
    ("family", "texts"),
    [("bert", ("ab cd ef", "ga fe", (1, 5))), ("xlnet", ("ab cd ef", None, (2, 0, 1)))],
)
def test_value_zeroing_of_a_run_on_tokens_hides_and_orders_what_that_run_did(family, texts):
    scope = scope_of(family)
    typed = scope.run(*texts)
    on_tokens = scope.run(typed.streams["text"])
    assert [*on_tokens.fields.values()][-1] == texts[-1]
    name = next(iter(typed.attention))
    expected = value_zeroing(scope, typed, name)
    assert expected.max() > 1e-3
    torch.testing.assert_close(value_zeroing(scope, on_tokens, name), expected)
