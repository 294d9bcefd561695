"""Dropout by counting: how many numbers are dropped, where, and how the others are scaled."""

import pytest
import torch

from models.layers.dropout import Dropout, keep_mask

N = 40_009  # not a multiple of four, the numbers that share a draw


@pytest.mark.parametrize("p", [0.1, 0.3, 0.75])
def test_each_number_is_dropped_with_its_probability_and_the_rest_is_scaled_up(p):
    x = torch.randn(N, 3)
    y = Dropout(p).train()(x)
    gone = y == 0
    deviation = (p * (1 - p) / N) ** 0.5
    assert gone.float().mean(0).sub(p).abs().max() < 5 * deviation
    torch.testing.assert_close(y[~gone], x[~gone] / (1 - p), rtol=3e-5, atol=0.0)
    four = (
        gone.flatten()[: 3 * N // 4 * 4].view(-1, 4).float()
    )  # numbers that share a draw use different bits of it
    assert four.mean(0).sub(p).abs().max() < 6 * deviation
    together = four.T @ four / len(four)
    assert (together - p * p).fill_diagonal_(0.0).abs().max() < 6 * deviation


def test_the_same_seed_drops_the_same_and_the_next_draw_others():
    x, dropout = torch.ones(7, 11, 13), Dropout(0.5).train()
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn += [dropout(x), dropout(x)]
    assert torch.equal(drawn[0], drawn[2])
    assert torch.equal(drawn[1], drawn[3])
    assert not torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[4])


def test_a_number_is_dropped_if_its_sixteen_bits_are_below_p_and_not_if_equal():
    shape = torch.Size((3, 7, 11))
    torch.manual_seed(5)
    bits = (
        torch.empty(58, dtype=torch.int64)
        .random_(-(2**63), None)
        .view(torch.int16)[: shape.numel()]
    )
    parts = [number + 2**15 for number in bits.tolist()]  # of 65,536
    just = sorted(parts)[70]
    torch.manual_seed(5)
    mask = keep_mask(shape, just / 2**16).flatten()
    assert (mask > 0).tolist() == [part >= just for part in parts]
    assert mask.unique().tolist() == pytest.approx([0, 1 / (1 - just / 2**16)])


def test_nothing_is_dropped_in_evaluation_or_at_probability_zero():
    x = torch.randn(7, 11)
    assert Dropout(0.3).eval()(x) is x
    assert Dropout(0.0).train()(x) is x


def test_what_was_dropped_gets_no_gradient():
    x = torch.randn(7, 11, requires_grad=True)
    y = Dropout(0.5).train()(x)
    y.sum().backward()
    assert torch.equal(x.grad, torch.where(y == 0, 0.0, 2.0))


def test_numbers_keep_their_type():
    x = torch.ones(5, 7, dtype=torch.float64)
    assert Dropout(0.5).train()(x).dtype == torch.float64
