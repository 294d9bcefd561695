"""Intervals and corrections against figures computed by hand."""

from itertools import product

import pytest
import torch

from models.analysis.paired import bootstrap, holm, sign_flips


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == (True, False, False, True)
    assert holm([0.04, 0.01]) == (True, True)
    assert holm([]) == ()
    assert holm([0.06, 0.2]) == (False, False)


def test_an_interval_of_differences():
    rng = torch.Generator().manual_seed(1)
    noise = torch.randn(400, generator=rng)
    found = bootstrap(noise + 0.5)
    error = float(noise.std()) / 20
    assert abs(found.mean - float(noise.mean()) - 0.5) < 1e-6
    assert abs((found.high - found.low) / (2 * 1.96 * error) - 1) < 0.05
    turned = bootstrap(-noise - 0.5)
    assert abs(turned.mean + found.mean) < 1e-9
    assert abs(turned.low + found.high) < 0.01


def test_the_p_value_counts_all_flips_of_signs():
    """It is the share of 2^8 sign patterns with a sum at least as far from 0; two of them if all signs are the same."""
    for values in ([0.3, -0.1, 0.7, 0.2, 0.0, 0.4, -0.2, 0.5], [1.0] * 8, [0.2, -0.2] * 4):
        sums = [abs(sum(map(float.__mul__, values, s))) for s in product((1.0, -1.0), repeat=8)]
        share = sum(one >= abs(sum(values)) - 1e-9 for one in sums) / 2**8
        (found,) = sign_flips(torch.tensor([values]))
        assert found == pytest.approx(share, abs=0.02)
    assert sign_flips(torch.ones(1, 5))[0] == pytest.approx(2 / 2**5, rel=0.2)


@pytest.mark.slow
def test_one_sweep_in_twenty_marks_effects_of_chance():
    """With few texts, too: 4 of them cannot make an effect significant among 24 heads."""
    rng = torch.Generator().manual_seed(2)
    for n, most in ((4, 0), (8, 0), (16, 12), (50, 12)):
        sweeps = [holm(sign_flips(torch.randn(24, n, generator=rng), i)) for i in range(100)]
        assert sum(map(any, sweeps)) <= most  # 12 or more of 100 at 5 %: p 0.004


def test_many_tests_are_flipped_in_parts(monkeypatch):
    """No part holds more numbers than are drawn at once, and p stays the same."""
    differences = torch.randn(40, 12, generator=torch.Generator().manual_seed(5)) + 0.4
    whole = sign_flips(differences)
    monkeypatch.setattr("models.analysis.paired.DRAWS_AT_ONCE", 4000)
    sizes, drawn = [], torch.randint
    monkeypatch.setattr(
        torch, "randint", lambda *a, **how: sizes.append(a[1][0]) or drawn(*a, **how)
    )
    assert sign_flips(differences) == pytest.approx(whole, abs=0.02)
    assert max(sizes) * 40 <= 4000
    assert sum(sizes) == 10_000


def test_among_many_tests_the_smallest_p_is_still_exact():
    rng = torch.Generator().manual_seed(3)
    strong = torch.randn(400, 60, generator=rng) + 2
    assert all(holm(sign_flips(strong)))


def test_a_difference_that_is_not_a_number_is_not_significant():
    differences = torch.ones(3, 30)
    differences[1, 4], differences[2, 4] = torch.nan, torch.inf
    assert sign_flips(differences)[0] < 0.001
    assert sign_flips(differences)[1:] == (1, 1)
