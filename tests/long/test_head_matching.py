"""Heads of one model matched to those of another: permuted heads are recovered."""

from copy import deepcopy
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
import torch
from torch import nn

import models
from models.analysis.head_matching import (
    KindDistances,
    match_heads,
    mean_distances,
    null_distances,
    similarity_within,
)
from models.checkpoint import Checkpoint
from models.runs.scope import Scope
from models.tasks.dates import DatesTask
from models.trace import Trace

N_TEXTS = 200


@cache
def dates() -> Scope:
    return models.load("dates", device="cpu")


@cache
def texts() -> list[tuple[str, str]]:
    cases = DatesTask().held_out(N_TEXTS)
    return [(case.source, case.references[0]) for case in cases]


def runs(scope: Scope) -> list[Trace]:
    return [trace for i in range(0, N_TEXTS, 40) for trace in scope.run_batch(texts()[i : i + 40])]


def permuted(
    scope: Scope, noise: float = 0.0, seed: int = 3
) -> tuple[Scope, dict[tuple[str, int, int], int]]:
    """Return the same checkpoint with the heads of each layer in another order, and (kind, layer, head) → its new number."""
    model, rng = deepcopy(scope.model), torch.Generator().manual_seed(seed)
    moved: dict[tuple[str, int, int], int] = {}
    for name, site in scope.run(*texts()[0]).attention.items():
        module = model.get_submodule(name)
        n, d = site.n_heads, site.d_head
        order = torch.randperm(n, generator=rng)
        moved |= {(site.kind, site.layer, int(old)): new for new, old in enumerate(order)}
        index = (order[:, None] * d + torch.arange(d)).flatten()
        for part, axis in (("W_Q", 0), ("W_K", 0), ("W_V", 0), ("W_O", 1)):
            reorder(module.get_submodule(part), index, axis)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += (
                noise * parameter.std().nan_to_num() * torch.randn(parameter.shape, generator=rng)
            )
    return Scope(Checkpoint(Path("permuted"), model, scope.tokenizer, {}), scope.device), moved


def reorder(linear: nn.Linear, index: torch.Tensor, axis: int) -> None:
    with torch.no_grad():
        linear.weight.copy_(linear.weight.index_select(axis, index))
        if axis == 0 and linear.bias is not None:
            linear.bias.copy_(linear.bias[index])


def share_found(scope: Scope, other: Scope, moved: dict[tuple[str, int, int], int]) -> float:
    found = mean_distances(zip(runs(scope), runs(other), strict=True))
    hits = [
        match.second == (match.first[0], moved[(kind.kind, *match.first)])
        for kind in found
        for match in match_heads(kind)
    ]
    assert len(hits) == len(moved)
    return sum(hits) / len(hits)


def test_permuting_heads_does_not_change_the_model() -> None:
    other, _ = permuted(dates())
    first, second = (scope.run(*texts()[1]).next_token.logits for scope in (dates(), other))
    torch.testing.assert_close(first, second, atol=1e-4, rtol=1e-4)


def test_permuted_heads_are_all_recovered() -> None:
    other, moved = permuted(dates())
    assert any(old != new for (_, _, old), new in moved.items())
    assert share_found(dates(), other, moved) == 1.0


def test_permuted_heads_are_recovered_under_noise() -> None:
    other, moved = permuted(dates(), noise=0.05)
    assert share_found(dates(), other, moved) >= 0.95


def kind_of(mean: list[list[float]]) -> KindDistances:
    places = [tuple((0, head) for head in range(n)) for n in (len(mean), len(mean[0]))]
    return KindDistances(
        "self", "Self", *places, torch.tensor(mean), torch.zeros(1, 1, 1), ("tokens",)
    )


def test_the_assignment_has_the_least_total_cost_and_a_margin() -> None:
    # the first head is nearest to 0, and so is the second, which is further from 1
    matches = match_heads(kind_of([[0.1, 0.2], [0.1, 0.9]]), null=[0.05, 0.15, 0.3])
    assert [(m.first[1], m.second[1]) for m in matches] == [(0, 1), (1, 0)]
    assert [m.distance for m in matches] == pytest.approx([0.2, 0.1])
    assert [m.margin for m in matches] == pytest.approx([-0.1, 0.8])
    assert [m.p for m in matches] == pytest.approx([3 / 4, 2 / 4])
    assert {m.p for m in match_heads(kind_of([[0.1, 0.2], [0.1, 0.9]]))} == {None}
    (tied,) = match_heads(kind_of([[0.25]]), null=[0.25, 0.5])
    assert tied.p == pytest.approx(2 / 3)  # a match that is as close counts


def test_the_larger_model_keeps_heads_without_a_match() -> None:
    matches = match_heads(kind_of([[0.3, 0.1, 0.2]]))
    assert [(m.first, m.second) for m in matches] == [((0, 0), (0, 1))]
    assert matches[0].margin == pytest.approx(0.1)


def test_the_null_holds_one_distance_for_each_match_of_each_pair() -> None:
    pair = [kind_of([[0.1, 0.5], [0.5, 0.2]])]
    assert null_distances([pair, pair])["self"] == pytest.approx([0.1, 0.2, 0.1, 0.2])
    assert null_distances([]) == {}


def test_other_seeds_are_further_apart_than_a_noisy_copy() -> None:
    """Noisy copies of one checkpoint are the null distribution here: a model with other weights lies outside it."""
    some = [permuted(dates(), noise=0.02, seed=seed)[0] for seed in (1, 2, 3)]
    traces = [[scope.run(*text) for text in texts()[:20]] for scope in some]
    null = null_distances(
        mean_distances(zip(a, b, strict=True)) for a, b in combinations(traces, 2)
    )
    trained = [dates().run(*text) for text in texts()[:20]]
    far, _ = permuted(dates(), noise=1.0)
    noisy = [far.run(*text) for text in texts()[:20]]
    for kind in mean_distances(zip(trained, noisy, strict=True)):
        assert max(m.p for m in match_heads(kind, null[kind.kind])) == 1.0
    for kind in mean_distances(zip(trained, traces[0], strict=True)):
        assert min(m.p for m in match_heads(kind, null[kind.kind])) < 0.5


def test_similarity_within_one_model() -> None:
    traces = [dates().run(*text) for text in texts()[:5]]
    for kind in similarity_within(traces):
        assert torch.equal(kind.mean.diagonal(), torch.zeros(len(kind.first)))
        torch.testing.assert_close(kind.mean, kind.mean.T)
        assert torch.equal(kind.own, torch.zeros_like(kind.own))


def test_no_text_is_an_error() -> None:
    with pytest.raises(ValueError, match="there is none"):
        mean_distances([])
