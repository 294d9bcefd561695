"""The position table against the paper's formula, entry by entry."""

import math

import pytest
import torch

from models.layers.positions import Positions, sinusoidal


@pytest.mark.parametrize(("n_ctx", "d_model"), [(17, 13), (19, 6)])
def test_every_entry_follows_the_papers_formula(n_ctx, d_model):
    table = sinusoidal(n_ctx, d_model)
    for pos in range(n_ctx):
        for j in range(d_model):
            angle = pos / 10000 ** (2 * (j // 2) / d_model)
            assert table[pos, j].item() == pytest.approx(
                math.cos(angle) if j % 2 else math.sin(angle), abs=1e-6
            )


def test_far_positions_are_exact():
    """In float32 alone, the angle of position 4999 would be off by some 1e-4."""
    assert sinusoidal(5000, 2)[4999].tolist() == pytest.approx(
        [math.sin(4999), math.cos(4999)], abs=1e-6
    )


def test_a_shift_is_a_rotation():
    """PE(pos+k) is one linear map of PE(pos) for every pos (§3.5)."""
    table = sinusoidal(43, 22).double()
    shift = torch.linalg.lstsq(table[:-7], table[7:]).solution
    torch.testing.assert_close(table[:-7] @ shift, table[7:], atol=1e-5, rtol=0)


def test_kinds():
    learned = Positions("learned", 11, 7)
    assert [name for name, _ in learned.named_parameters()] == ["table"]
    assert learned(5, start=3).shape == (5, 7)
    assert torch.equal(learned(5, start=3), learned.table[3:8])
    assert Positions("none", 11, 7)(11).abs().max() == 0
    assert torch.equal(Positions("sinusoidal", 11, 7)(11), sinusoidal(11, 7))
    assert (
        Positions("sinusoidal", 11, 7).state_dict() == {}
    )  # a formula is not stored in a checkpoint


def test_an_unknown_kind_is_an_error():
    with pytest.raises(
        ValueError, match="positions must be sinusoidal, learned or none, not 'rotary'"
    ):
        Positions("rotary", 11, 7)
