"""Tensors that a module changes in place are recorded as they were when the attention used them."""

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from by_hand import HEADS, LETTERS, TEXT, WIDTH, blocked, drawn, ids, joined, split
from torch import Tensor, nn

import models
from models.analysis.checks import check_site
from models.trace import AttentionSite, Trace
from models.trace.edits import Where, ZeroValue
from models.trace.edits.active import editing

N, SIZE = len(TEXT), WIDTH // HEADS


class Part(nn.Module):
    """An attention that changes one tensor in place, and keeps its inputs and results."""

    def __init__(self, changed: str, fused: bool = False) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.gate, self.changed, self.fused = nn.Linear(WIDTH, WIDTH), changed, fused

    def forward(self, x: Tensor) -> Tensor:
        q, k, v, scale = self.q(x), self.k(x), self.v(x), SIZE**-0.5
        if self.changed == "q":
            q *= scale
            scale = 1.0
        q, k, v = split(q), split(k), split(v)
        if self.fused:
            made = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
        else:
            made = (q @ k.mT * scale).masked_fill(blocked(N), -torch.inf).softmax(-1) @ v
        self.given, self.scale = [t.clone() for t in (x, q, k, made)], scale
        if self.changed == "out":
            made *= torch.sigmoid(split(self.gate(x)))
        return self.out(joined(made))


class Stream(nn.Module):
    def __init__(self, *layers: nn.Module, in_place: bool = False) -> None:
        super().__init__()
        self.embedding, self.layers = nn.Embedding(len(LETTERS), WIDTH), nn.ModuleList(layers)
        self.in_place = in_place

    def forward(self, row: Tensor) -> Tensor:
        x = self.embedding(row)
        for layer in self.layers:
            if self.in_place:
                x += layer(x)
            else:
                x = x + layer(x)
        return x


@torch.no_grad()
def watched_trace(module: nn.Module, mode: Callable = nullcontext) -> Trace:
    scope = models.watch(drawn(module), encode=ids)
    with mode():
        return scope.run(TEXT)


def claimed(site: AttentionSite, name: str) -> Tensor:
    """Return the recorded matrix times the recorded input, by head."""
    of = {"W_Q": site.x, "W_V": site.memory}[name]
    return F.linear(of, *site.projections[name]).unflatten(-1, (HEADS, -1)).transpose(1, 2)


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize("mode", [nullcontext, torch.inference_mode])
@pytest.mark.parametrize("fused", [False, True], ids=["by hand", "fused"])
@pytest.mark.parametrize("changed", ["nothing", "q", "x", "out"])
@torch.no_grad()
def test_the_recorded_tensors_are_those_that_the_attention_used_and_made(
    changed: str, fused: bool, mode: Callable
) -> None:
    part = Part(changed, fused)
    site = next(iter(watched_trace(Stream(part, in_place=changed == "x"), mode).attention.values()))
    x, q, k, made = part.given
    scores = torch.einsum("bhqd,bhkd->hqk", q, k) * part.scale
    weights = torch.where(blocked(N), 0.0, scores.exp())
    weights /= weights.sum(-1, keepdim=True)
    torch.testing.assert_close(site.weights(), weights, atol=2e-6, rtol=0)
    assert torch.equal(site.x, x)
    assert torch.equal(site.out, made)
    assert [check for check in check_site(site) if not check.passed] == []
    assert ("W_O" in site.projections) == (changed not in ("q", "out"))
    if "W_Q" in site.projections:
        torch.testing.assert_close(claimed(site, "W_Q"), q, atol=2e-6, rtol=1e-5)


@torch.no_grad()
def test_a_long_text_is_not_recomputed_from_numbers_that_have_changed() -> None:
    part, long = Part("q"), (TEXT * 400)[: 65_536 // WIDTH + N]
    scope = models.watch(drawn(Stream(_Long(part))), encode=ids)
    site = next(iter(scope.run(long).attention.values()))
    assert torch.equal(site.q, part.given[1])


class _Long(nn.Module):
    """The same queries and keys for any length, with the fused kernel."""

    def __init__(self, part: Part) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: Tensor) -> Tensor:
        part = self.part
        q, k, v = part.q(x), part.k(x), part.v(x)
        q *= SIZE**-0.5
        part.given = x, split(q).clone()
        how = {"is_causal": True, "scale": 1.0}
        return part.out(joined(F.scaled_dot_product_attention(split(q), split(k), split(v), **how)))


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.q(x) @ self.k(x).mT / WIDTH**0.5
        return scores.masked_fill(blocked(N), -torch.inf).softmax(-1) @ self.v(x)


@pytest.mark.parametrize("mode", [nullcontext, torch.inference_mode])
@pytest.mark.parametrize("in_place", [False, True])
def test_layers_of_one_head_on_one_stream_are_no_heads_of_one_attention(
    in_place: bool, mode: Callable
) -> None:
    trace = watched_trace(Stream(*(Head() for _ in range(3)), in_place=in_place), mode)
    assert {name: site.n_heads for name, site in trace.attention.items()} == {
        f"layers.{i}": 1 for i in range(3)
    }


@torch.no_grad()
def test_the_input_of_multi_head_attention_is_kept_as_it_was() -> None:
    class Torchs(nn.MultiheadAttention):
        def forward(self, x: Tensor) -> Tensor:
            self.given = x.clone()
            return super().forward(x, x, x, need_weights=False)[0]

    part = Torchs(WIDTH, HEADS, batch_first=True)
    (site,) = watched_trace(Stream(part, in_place=True)).attention.values()
    assert torch.equal(site.x, part.given)
    torch.testing.assert_close(claimed(site, "W_Q"), site.q, atol=2e-6, rtol=1e-5)


class Reweighed(nn.Module):
    """Weights that are changed in place before or after they are applied to the values."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.gate, self.how, self.zeroed = nn.Parameter(torch.rand(HEADS, 1, 1)), how, None

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        scores = q @ k.mT / SIZE**0.5
        weights = scores.masked_fill(blocked(N), -torch.inf).softmax(-1)
        self.softmax = weights.clone()
        if self.how == "gate":
            weights *= self.gate.sigmoid()
        elif self.how == "mask":
            weights.masked_fill_(torch.arange(N) % 3 == 1, 0.0)
        if self.zeroed is not None:
            v = v.index_fill(2, torch.tensor(self.zeroed), 0.0)
        made = weights @ v
        if self.how == "after":
            weights.zero_()
        return self.out(joined(made))


@torch.no_grad()
@pytest.mark.parametrize("how", ["gate", "after"])
def test_weights_changed_in_place_are_shown_and_edited_as_the_softmax_made_them(how: str) -> None:
    part = Reweighed(how)
    scope = models.watch(module := drawn(Stream(part)), encode=ids)
    site = scope.run(TEXT).attention["layers.0"]
    assert torch.equal(site.weights(), part.softmax[0])
    assert [check for check in check_site(site) if not check.passed] == []
    part.zeroed, row = 2, torch.tensor([ids(TEXT)])
    expected, part.zeroed = module(row), None
    with editing([ZeroValue(Where(site="layers.0"), token=2)]):
        made = scope.model(row)["numbers"]
    torch.testing.assert_close(made, expected, atol=1e-5, rtol=0)


@torch.no_grad()
def test_weights_masked_in_place_are_shown_without_causes() -> None:
    part = Reweighed("mask")
    site = models.watch(drawn(Stream(part)), encode=ids).run(TEXT).attention["layers.0"]
    assert not site.has_causes
    assert "changed between the softmax and the values" in site.why_given
    assert site.weights()[:, :, 1].eq(0).all()
