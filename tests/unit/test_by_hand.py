"""Attention that a module writes out itself is recorded with its causes and edited in place, whichever way it is written."""

import pytest
import torch
from by_hand import FORMS, TEXT, Decoder, blocked, drawn, ids, joined, weights_by_other_means
from torch import Tensor

import models
from models.analysis.checks import check_site
from models.trace.edits import (
    HeadOff,
    HeadScale,
    MaskChange,
    SetWeights,
    Where,
    ZeroValue,
    for_kinds,
)

N = len(TEXT)


def scope_of(form: str) -> models.Scope:
    return models.watch(drawn(Decoder(form)), encode=ids)


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("form", FORMS)
@torch.no_grad()
def test_each_way_of_writing_it_is_recorded_bit_by_bit(form: str) -> None:
    scope = scope_of(form)
    module, row = scope.model.module, torch.tensor([ids(TEXT)])
    plain = module(row)
    own = [layer.weights for layer in module.layers]
    with models.record():
        assert torch.equal(scope.model(row)["numbers"], plain)
    trace = scope.run(TEXT)
    assert trace.unrecorded == {}
    assert list(trace.attention) == ["layers.0", "layers.1"]
    for site, layer, weights in zip(trace.attention.values(), module.layers, own, strict=True):
        assert torch.equal(site.weights(), weights[0])
        assert [part.name for part in site.mask.layers] == ["look-ahead"]
        assert site.weights()[:, blocked(N)].eq(0).all()
        assert site.similarity.name == "scaled dot"
        assert not site.terms
        assert set(site.projections) == {"W_Q", "W_K", "W_V", "W_O"}
        assert site.projections["W_O"][0].equal(layer.out.weight)
        assert [check for check in check_site(site) if not check.passed] == []
        wanted, outs = weights_by_other_means(layer, site.x[0], ~blocked(N))
        assert (site.weights() - wanted).abs().max() < 2e-6
        assert (site.head_out() - outs).abs().max() < 1e-5
        derived = site.scores().masked_fill(blocked(N), -torch.inf).softmax(-1)
        assert (derived - wanted).abs().max() < 2e-6


@pytest.mark.parametrize("form", [form for form in FORMS if form != "no batch"])
def test_as_many_texts_as_heads_are_not_taken_for_each_other(form: str) -> None:
    scope, texts = scope_of(form), (TEXT, "cabbage fa")
    for text, trace in zip(texts, scope.run_batch([[text] for text in texts]), strict=True):
        alone = scope.run(text).attention
        assert list(trace.attention) == list(alone) == ["layers.0", "layers.1"]
        for name, site in trace.attention.items():
            assert site.has_causes
            torch.testing.assert_close(site.weights(), alone[name].weights(), atol=1e-5, rtol=0)
            torch.testing.assert_close(site.out, alone[name].out, atol=1e-5, rtol=0)


class Painted(torch.nn.Module):
    """A decoder of this form with a painted mask and changed heads, made without edits."""

    def __init__(self, module: Decoder, allowed: Tensor, factors: Tensor) -> None:
        super().__init__()
        self.module, self.allowed, self.factors = module, allowed, factors

    def forward(self, row: Tensor) -> Tensor:
        x = self.module.embedding(row) + self.module.places(torch.arange(N))
        for layer in self.module.layers:
            _, outs = weights_by_other_means(layer, x[0], self.allowed)
            x = x + layer.out(joined((outs * self.factors)[None]))
        return self.module.head(x)


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("form", FORMS)
@torch.no_grad()
def test_a_painted_mask_and_a_changed_head_reach_the_modules_own_output(form: str) -> None:
    scope = scope_of(form)
    row = torch.tensor([ids(TEXT)])
    cells = MaskChange(block=((7, 2),), allow=((3, 5),))
    edits = (*for_kinds(self=cells), HeadScale(Where(heads=(1,)), factor=-0.5))
    changed = scope.run_batch([[TEXT]], edits=edits)[0]
    for site in changed.attention.values():
        assert site.weights()[:, 7, 2].eq(0).all()
        assert site.weights()[:, 3, 5].gt(0).all()
        assert [check for check in check_site(site) if not check.passed] == []
    allowed = ~blocked(N)
    allowed[7, 2], allowed[3, 5] = False, True
    factors = torch.tensor([1.0, -0.5])[:, None, None]
    wanted = Painted(scope.model.module, allowed, factors)(row)
    with models.trace.edits.editing(edits):
        got = scope.model(row)["numbers"]
    assert (got - wanted).abs().max() < 1e-5
    assert (got - scope.model(row)["numbers"]).abs().max() > 1e-2


@torch.no_grad()
def test_weights_values_and_heads_are_edited_where_they_are_used() -> None:
    scope = scope_of("einsum")
    first = Where(site="layers.0", heads=(1,))
    edits = (
        SetWeights(Where(site="layers.0", heads=(1,), queries=(4,)), cells=((1, 0.75),)),
        ZeroValue(first, token=0),
        HeadOff(Where(site="layers.1", heads=(0,))),
    )
    trace = scope.run_batch([[TEXT]], edits=edits)[0]
    plain = scope.run(TEXT)
    one, two = trace.attention.values()
    assert one.weights()[1, 4, 1] == pytest.approx(0.75)
    assert one.weights()[1, 4].sum() == pytest.approx(1)
    weights = one.weights()[1].clone()
    weights[:, 0] = 0
    assert (one.out[0, 1] - weights @ one.v[0, 1]).abs().max() < 1e-6
    assert torch.equal(one.out[0, 0], plain.attention["layers.0"].out[0, 0])
    assert two.out[0, 0].eq(0).all()
    assert not torch.equal(two.x, plain.attention["layers.1"].x)
