"""Intervals and corrections against figures worked out by hand."""

import torch

from models.analysis.paired import bootstrap, holm


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
    assert found.p < 1e-3
    assert (
        found.p == 2 / 10_001
    )  # no resampled mean is on the other side: 2 · (0 + 1) / (10,000 + 1)
    turned = bootstrap(-noise - 0.5)
    assert abs(turned.mean + found.mean) < 1e-9
    assert abs(turned.low + found.high) < 0.01
    assert bootstrap(torch.zeros(9)).p == 1
    assert (
        sum(bootstrap(torch.randn(60, generator=rng), seed=i).p > 0.05 for i in range(60)) / 60
        > 0.9
    )
