"""Claims of pictures about positions, reach, a pair of models and painted masks: each fails, alone, for a forged picture."""

from dataclasses import replace

import pytest
import torch
from small import random_model, random_seq2seq
from torch import nn

from models.analysis import jacobian_norms
from models.analysis.checks import Check
from models.analysis.divergence import jensen_shannon
from models.analysis.jacobian_reach import (
    BIDIRECTIONAL,
    CNN,
    N_CHECKED,
    RNN,
    SELF_ATTENTION,
    LayerChoice,
    layer_reach,
)
from models.analysis.position_measures import (
    add_or_concatenate,
    measure_formula,
    similarity_by_distance,
)
from models.analysis.sequence_layers import Recurrent, SelfAttention
from models.analysis.shuffle import ShuffleTest
from models.layers.masks import Mask, MaskLayer
from models.layers.positions import formula_table, sinusoidal
from models.runs.masked_comparison import run_masked
from models.trace.edits import MaskChange, for_kinds
from viz_app import words
from viz_app.views.from_rnn import pair as from_rnn_pair
from viz_app.views.from_rnn import reach as reach_text
from viz_app.views.from_rnn.maps import AlignmentMap
from viz_app.views.masks import mask_view
from viz_app.views.masks.mask_view import MaskView
from viz_app.views.positions import claims as positions_claims


def failed(checks: list[Check]) -> dict[str, float]:
    """Return name → value of the checks that do not hold."""
    return {check.name: check.value for check in checks if not check.passed}


def with_shifted_number(tensor: torch.Tensor, at: tuple, by: float) -> torch.Tensor:
    forged = tensor.clone()
    forged[at] += by
    return forged


# Positions


def test_the_claims_of_the_three_formulas():
    measures = [measure_formula(formula, 19, 6, 3) for formula in ("paper", "2^i", "sin-sin")]
    checks = positions_claims.formulas(measures)
    assert failed(checks) == {}
    over = "R·PE(pos) against PE(pos+3) over 24 positions, as a share of their length"
    assert [(c.name, c.limit, c.sentence) for c in checks] == [
        ("The paper's: a shift is a rotation", 1e-9, over),
        ("Misprint 2ⁱ: a shift is a rotation", 1e-9, over),
        (
            "Misprint sin, sin: PE(0) is zero",
            0.0,
            "Largest value in the vector of position 0, which no matrix can move",
        ),
    ]
    forged = [
        replace(measures[0], rotation_miss=1e-6),
        replace(measures[1], rotation_miss=1e-5),
        replace(measures[2], table=with_shifted_number(measures[2].table, (0, 4), -1e-12)),
    ]
    assert list(failed(positions_claims.formulas(forged)).values()) == [1e-6, 1e-5, 1e-12]
    another = replace(
        measures[2], table=with_shifted_number(measures[2].table, (1, 4), 1.0), rotation_miss=1.0
    )
    assert (
        failed(positions_claims.formulas([another])) == {}
    )  # only position 0 must be zero, and no rotation is claimed


def test_the_claims_of_one_table():
    values = formula_table("paper", 19, 6)
    similarity = similarity_by_distance(values)
    checks = positions_claims.table_checks("paper", values, similarity)
    assert failed(checks) == {}
    length, distance = "all vectors have length √(d/2)", "only the distance counts"
    assert [(c.name, c.limit, c.sentence) for c in checks] == [
        (length, 1e-9, "Largest difference from 1.732"),
        (distance, 1e-9, "Largest spread of PE·PEᵀ at any one distance"),
    ]
    shorter = values.clone()
    shorter[4] *= 0.5
    assert failed(positions_claims.table_checks("paper", shorter, similarity)) == {
        length: pytest.approx(0.5 * 3**0.5)
    }
    uneven = replace(similarity, least=with_shifted_number(similarity.least, (5,), -0.25))
    assert failed(positions_claims.table_checks("paper", values, uneven)) == {
        distance: pytest.approx(0.25)
    }
    sines = formula_table("sin-sin", 19, 6)
    (zero,) = positions_claims.table_checks("sin-sin", sines, similarity_by_distance(sines))
    assert (zero.name, zero.passed) == ("Misprint sin, sin: PE(0) is zero", True)


def test_the_claims_of_the_models_own_table():
    whole = sinusoidal(19, 6)
    same, papers = "the model adds this table", "it is the paper's formula"
    checks = positions_claims.own_table_checks(whole[:7], whole, "sinusoidal", sinusoidal(19, 6))
    assert [(c.name, c.passed, c.limit, c.sentence) for c in checks] == [
        (same, True, 0.0, "Largest difference from the run on your text"),
        (papers, True, 1e-6, "Largest difference over 19 positions"),
    ]
    used = with_shifted_number(whole[:7], (6, 5), -1e-3)
    assert failed(positions_claims.own_table_checks(used, whole, "sinusoidal", whole)) == {
        same: pytest.approx(1e-3, rel=1e-3)
    }
    other = with_shifted_number(whole, (18, 2), 1e-3)
    assert failed(positions_claims.own_table_checks(other[:7], other, "sinusoidal", whole)) == {
        papers: pytest.approx(1e-3, rel=1e-3)
    }
    assert [
        c.name for c in positions_claims.own_table_checks(other[:7], other, "learned", whole)
    ] == [same]


def shuffled(change: torch.Tensor, order: tuple[int, ...], stages: tuple[str, ...]) -> ShuffleTest:
    """Return a shuffle test whose vectors (1, 0) have moved at right angles by `change`, (stage, n)."""
    original = torch.stack([torch.ones_like(change), torch.zeros_like(change)], dim=-1)
    return ShuffleTest(
        order, stages, original, torch.stack([torch.ones_like(change), change], dim=-1)
    )


def test_the_claims_of_the_shuffle_test():
    order, stages = (1, 0, 2), ("input", "layer 1")
    still, changed = torch.zeros(2, 3), torch.full((2, 3), 0.5)
    positioned, bare = shuffled(changed, order, stages), shuffled(still, order, stages)
    unseen, same = "without positions, order is invisible", "the same run as on the other pages"
    recorded = positioned.original[1]
    checks = positions_claims.shuffle_checks(positioned, bare, recorded)
    assert [(c.name, c.passed, c.limit, c.sentence) for c in checks] == [
        (unseen, True, 1e-4, "Largest change of any vector at any layer, as a share of its length"),
        (same, True, 1e-5, "Largest difference from the last layer as recorded"),
    ]
    for at in ((0, 2), (1, 0)):
        moved_one = shuffled(with_shifted_number(still, at, 2e-4), order, stages)
        assert failed(positions_claims.shuffle_checks(positioned, moved_one, recorded)) == {
            unseen: pytest.approx(2e-4)
        }
    forged = with_shifted_number(recorded, (2, 1), -0.25)
    assert failed(positions_claims.shuffle_checks(positioned, bare, forged)) == {
        same: pytest.approx(0.25)
    }
    assert positions_claims.shuffle_checks(positioned, bare, 1000 * recorded)[
        1
    ].limit == pytest.approx(1e-2)


def test_under_pre_ln_the_layer_before_the_last_norm_is_the_one_recorded():
    order, stages = (1, 0, 2), ("input", "layer 1", "last LayerNorm")
    test = shuffled(torch.zeros(3, 3), order, stages)
    test = replace(
        test, original=torch.stack([test.original[0], 2 * test.original[1], 3 * test.original[2]])
    )
    for stage, passed in enumerate((False, True, False)):
        assert positions_claims.shuffle_checks(test, test, test.original[stage])[1].passed is passed


def test_the_claims_of_a_recurrent_shuffle_test():
    """Positions 2 and 3 are exchanged: forwards nothing before 2 may change, backwards nothing after 3."""
    order, stages = (0, 1, 3, 2, 4), ("forwards", "backwards")
    change = torch.tensor([[0.0, 0.0, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5, 0.0]])
    test = shuffled(change, order, stages)
    before, behind = "what is read before cannot change", "the same, reading backwards"
    same = "the same run as on the other pages"
    checks = positions_claims.recurrent_checks(test, test.original)
    assert [(c.name, c.passed, c.limit) for c in checks] == [
        (before, True, 1e-6),
        (behind, True, 1e-6),
        (same, True, 1e-5),
    ]
    assert [c.sentence for c in checks] == [
        "Reading forwards: largest change of a state before the first moved token, as a share of its length",
        "Reading backwards: largest change of a state after the last moved token",
        "Largest difference from the states recorded",
    ]
    for at, name in (((0, 1), before), ((0, 0), before), ((1, 4), behind)):
        forged = shuffled(with_shifted_number(change, at, 2e-6), order, stages)
        assert failed(positions_claims.recurrent_checks(forged, forged.original)) == {
            name: pytest.approx(2e-6)
        }
    assert failed(
        positions_claims.recurrent_checks(
            test, with_shifted_number(test.original, (1, 2, 0), -0.25)
        )
    ) == {same: pytest.approx(0.25)}
    one_way = shuffled(change[:1], order, ("states",))
    assert [c.name for c in positions_claims.recurrent_checks(one_way, one_way.original)] == [
        before,
        same,
    ]
    whole = shuffled(
        with_shifted_number(torch.zeros(2, 5), (0, 4), 2e-6), (0, 1, 2, 3, 4), stages
    )  # nothing moved: nothing may change
    assert list(failed(positions_claims.recurrent_checks(whole, whole.original))) == [before]
    whole = shuffled(with_shifted_number(torch.zeros(2, 5), (1, 0), 2e-6), (0, 1, 2, 3, 4), stages)
    assert list(failed(positions_claims.recurrent_checks(whole, whole.original))) == [behind]


def test_the_claims_of_adding_and_concatenating():
    x, p, W = torch.randn(5, 8), torch.randn(5, 8), torch.randn(8, 8)
    both = add_or_concatenate(x, p, W)
    size = max(1.0, float(((x + p) @ W).abs().max()))
    folded, projected = "[x; p]·[I; I] is x + p", "[x; p]·[W; W] is (x + p)·W"
    checks = positions_claims.adding(both, x + p)
    assert [(c.name, c.passed, c.limit) for c in checks] == [
        (folded, True, pytest.approx(1e-6 * size)), (projected, True, pytest.approx(1e-5 * size)),
    ]  # fmt: skip
    assert {c.sentence for c in checks} == {"Largest difference over all tokens"}
    assert failed(positions_claims.adding(both, with_shifted_number(x + p, (4, 7), -0.25))) == {
        folded: pytest.approx(0.25, abs=1e-5)
    }
    forged = replace(both, concatenated=with_shifted_number(both.concatenated, (4, 7), -0.25))
    assert failed(positions_claims.adding(forged, x + p)) == {
        projected: pytest.approx(0.25, abs=1e-4)
    }
    bias, q = torch.randn(8), torch.zeros(2, 5, 4)
    for head in range(2):
        for place in range(5):
            q[head, place] = ((x[place] + p[place]) @ W + bias)[4 * head : 4 * head + 4]
    true = positions_claims.queries(both, bias, q)
    assert (true.name, true.passed) == ("these are the model's own queries", True)
    assert true.sentence == "Largest difference of (x + p)·W_Q + b from the q of the run"
    assert true.limit == pytest.approx(1e-5 * max(1.0, float(q.abs().max())))
    assert positions_claims.queries(
        both, bias, with_shifted_number(q, (1, 4, 3), -0.25)
    ).value == pytest.approx(0.25, abs=1e-4)
    for wrong in (q.flip(0), q.flip(1)):
        assert not positions_claims.queries(both, bias, wrong).passed
    assert not positions_claims.queries(both, 0 * bias, q).passed


# Reach: which inputs affect which outputs


def recurrence(**changes) -> tuple:
    return random_seq2seq(**changes), (5, 6, 7, 8, 9)


LEAK, OWN, AUTOGRAD = (
    "what cannot be reached is 0",
    "the layers are the models' own",
    "the norms are autograd's",
)


def test_the_claims_of_reach():
    model, ids = recurrence()
    found = [layer_reach(model, ids, LayerChoice(kind)) for kind in (RNN, BIDIRECTIONAL)] + [
        layer_reach(model, ids, LayerChoice(CNN, 1))
    ]
    checks = reach_text.reach_checks(found)
    assert [(c.name, c.passed, c.limit) for c in checks] == [
        (LEAK, True, 0.0),
        (OWN, True, 1e-5),
        (AUTOGRAD, True, 1e-4),
    ]
    assert [c.sentence for c in checks] == [
        "Largest ‖∂y(i)/∂x(j)‖ where a layer's graph has no path from x(j) to y(i)",
        "Largest difference of any y from the models' own pass, relative",
        "First tokens through plain autograd; largest difference, relative",
    ]
    assert not found[0].reaches[1, 3]
    forged = {
        LEAK: replace(found[0], norms=with_shifted_number(found[0].norms, (1, 3), 1e-30)),
        OWN: replace(found[0], output_gap=2e-5),
        AUTOGRAD: replace(found[0], autograd_gap=2e-4),
    }
    for name, one in forged.items():
        for layers in ([one, found[1]], [found[1], one]):
            assert list(failed(reach_text.reach_checks(layers))) == [name]
    assert (
        replace(found[0], norms=with_shifted_number(found[0].norms, (3, 1), 1.0)).leak == 0
    )  # there it may be anything
    assert found[1].reaches.all()
    assert found[1].leak == 0


@pytest.mark.parametrize("kind", [RNN, BIDIRECTIONAL, SELF_ATTENTION])
@pytest.mark.parametrize("seed", [None, 1])
def test_a_layer_that_is_not_what_the_model_computes_shows_a_gap(monkeypatch, kind, seed):
    model = random_model() if kind == SELF_ATTENTION else random_seq2seq()
    layer = SelfAttention if kind == SELF_ATTENTION else Recurrent
    call = layer.__call__
    monkeypatch.setattr(
        layer,
        "__call__",
        lambda self, x: call(self, x) * torch.tensor([1, 1, 1, 1.25, 1])[: len(x), None],
    )
    found = layer_reach(model, (5, 6, 7, 8, 9), LayerChoice(kind, seed), gap=0.0)
    if kind == SELF_ATTENTION and seed is not None:
        assert found.output_gap == 0  # a new layer has no other pass to compare with
        return
    truth = reach_outputs(model, kind, seed)
    assert found.output_gap == pytest.approx(
        float(0.25 * truth[3].abs().max() / truth.abs().max()), rel=1e-3
    )


def reach_outputs(model, kind: str, seed: int | None) -> torch.Tensor:
    """Return the outputs of torch's own modules for the five embedded tokens."""
    ids = torch.tensor([[5, 6, 7, 8, 9]])
    with torch.no_grad():
        x = model.embedding(ids) * model.config.d_model**0.5
        if kind == SELF_ATTENTION:
            x = x + model.positions(5)
            return model.encoder.layers[0].self_attn(x, x, Mask())[0]
        if seed is None:
            y = model.encoder.recurrence(x)[0][0]
            return y if kind == BIDIRECTIONAL else y[:, : model.config.d_hidden]
        torch.manual_seed(seed)
        return nn.RNN(x.shape[2], 64, bidirectional=kind == BIDIRECTIONAL)(x[0])[0]


@pytest.mark.parametrize("kind", [RNN, BIDIRECTIONAL, CNN, SELF_ATTENTION])
def test_norms_that_differ_from_autograd_show_a_gap(monkeypatch, kind):
    """Measured on the row of the middle one of the first three tokens, relative to autograd's largest."""
    model, ids = random_model(), (5, 6, 7, 8, 9)
    norms, rows = jacobian_norms.norms, []

    def forged(layer, x):
        rows.append(len(x))
        return norms(layer, x) * torch.tensor([1.0, 1.5, 1.0, 1.0, 1.0])[: len(x), None]

    monkeypatch.setattr(jacobian_norms, "norms", forged)
    assert layer_reach(model, ids, LayerChoice(kind, 1)).autograd_gap == pytest.approx(
        0.5, rel=1e-3
    )
    assert rows == [5, N_CHECKED] == [5, 3]
    assert (
        layer_reach(model, ids, LayerChoice(kind, 1), gap=0.125).autograd_gap == 0.125
    )  # known already


def test_norms_where_a_layer_cannot_reach_are_a_leak(monkeypatch):
    norms = jacobian_norms.norms
    monkeypatch.setattr(jacobian_norms, "norms", lambda layer, x: norms(layer, x) + 1e-6)
    model, ids = recurrence()
    assert layer_reach(model, ids, LayerChoice(RNN), gap=0.0).leak == pytest.approx(1e-6)
    assert layer_reach(model, ids, LayerChoice(CNN, 1, 3, 1), gap=0.0).leak == pytest.approx(1e-6)
    assert layer_reach(model, ids, LayerChoice(BIDIRECTIONAL), gap=0.0).leak == 0


# Two alignments


def test_the_claims_of_a_pair(scope):
    traces = [scope.run("abc", "cba"), scope.run("abd", "cba")]
    p, q = (trace.attention["decoder.layers.0.cross_attn"].weights(0) for trace in traces)
    pair, apart = [AlignmentMap("one", "", p), AlignmentMap("other", "", q)], jensen_shannon(p, q)
    checks = from_rnn_pair.pair_checks(traces, pair, apart)
    sums, same, again = (
        "rows sum to 1",
        "both read the same target",
        "the divergence, by its other definition",
    )
    assert [(c.name, c.passed, c.limit, c.sentence) for c in checks] == [
        (sums, True, 1e-5, "Each row of weights sums to 1; largest difference in both pictures"),
        (same, True, 0.0, "Target tokens that differ between the two runs"),
        (again, True, 1e-5, "½·KL(p‖m) + ½·KL(q‖m), m = (p + q)/2; largest gap in bits"),
    ]
    assert failed(
        from_rnn_pair.pair_checks(traces, pair, with_shifted_number(apart, (2,), -0.25))
    ) == {again: pytest.approx(0.25, abs=1e-5)}
    other = [traces[0], scope.run("abd", "cda")]
    assert failed(from_rnn_pair.pair_checks(other, pair, apart)) == {same: 1.0}
    for i, weights in enumerate((p, q)):
        forged = list(pair)
        forged[i] = AlignmentMap("forged", "", with_shifted_number(weights, (3, 1), -1e-3))
        found = failed(
            from_rnn_pair.pair_checks(
                traces, forged, jensen_shannon(forged[0].weights, forged[1].weights)
            )
        )
        assert found[sums] == pytest.approx(1e-3, rel=0.01)


# Masks


@pytest.mark.parametrize("head", [0, 2])
def test_the_claims_of_painted_masks(scope, head):
    """A mask that is not the AND of its layers fails, cell by cell; so does weight on a cell that was painted blocked."""
    changes = for_kinds(cross=MaskChange(block=((1, 2),)))
    (before,), (after,) = (run_masked(scope, [("abc", "cba")], c) for c in ((), changes))
    view = MaskView(
        before, after, changes, "cross", "decoder.layers.0.cross_attn", head, words.terms("dates")
    )
    together, touched = "the mask is all its layers together", "forbidden cells are 0"
    checks = mask_view.mask_checks(view)
    assert [(c.name, c.value, c.limit, c.sentence) for c in checks] == [
        (together, 0.0, 0.0, "Cells that differ from the AND of the layers"),
        (touched, 0.0, 0.0, "Largest weight on a cell you blocked, over all layers and heads"),
    ]
    site = after.trace.attention[view.site]
    open_ = replace(
        site, mask=Mask(layer for layer in site.mask.layers if layer.name != "drawn by hand")
    )
    forged = replace(
        view,
        after=replace(
            after, trace=replace(after.trace, attention={**after.trace.attention, view.site: open_})
        ),
    )
    largest = float(before.trace.attention[view.site].weights()[:, 1, 2].max())
    wanted = (
        {}
        if len(open_.mask.layers) == len(site.mask.layers)
        else {touched: pytest.approx(largest, abs=1e-5)}
    )
    assert failed(mask_view.mask_checks(forged)) == wanted != {}

    class Claims(Mask):
        """A mask that claims one more open cell than its layers allow."""

        def expanded(self, *where):
            allowed = super().expanded(*where).clone()
            allowed[..., 1, 2] = True
            return allowed

    lying = replace(site, mask=Claims(MaskLayer(x.name, x.allowed) for x in site.mask.layers))
    forged = replace(
        view,
        after=replace(
            after, trace=replace(after.trace, attention={**after.trace.attention, view.site: lying})
        ),
    )
    assert failed(mask_view.mask_checks(forged))[together] == 1.0
