"""What is added to the scores of other libraries' models: a bias however strong, or a mask in any of its usual forms."""

import pytest
import torch
from torch import Tensor

from models.hub.masks import as_attn_mask, explain
from models.layers.masks import LOOK_AHEAD, Mask
from models.trace import DistanceTerm

CPU = torch.device("cpu")
N, HEADS = 7, 3
SLOPES = torch.tensor(
    [0.7, 0.031, 1000.0]
)  # of ALiBi, and one so steep that 6 tokens do what 6,000 would
DISTANCE = torch.arange(N)[None] - torch.arange(N)[:, None]  # of a key after its query
BEHIND = DISTANCE <= 0


def alibi() -> Tensor:
    """(1, head, query, key): the lower, the further away a key is; down to −6,000."""
    return -(SLOPES[:, None, None] * DISTANCE.abs())[None]


def forbidding(value: float, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(1, 1, N, N, dtype=dtype).masked_fill(~BEHIND, value)


def weights(added: Tensor, scores: Tensor) -> Tensor:
    return (scores + added.float()).softmax(-1)


@pytest.mark.parametrize("value", [-1e4, -1e9, -torch.inf, torch.finfo(torch.float32).min])
def test_a_strong_bias_is_a_bias_and_a_mask_beside_it_a_mask(value: float) -> None:
    """Every cell is worked out a second time, from scores to which the tensor is added as it is."""
    given, scores = alibi() + forbidding(value), torch.randn(HEADS, N, N)
    found = explain(given, False, N, N, None, CPU)
    assert [layer.name for layer in found.mask.layers] == [LOOK_AHEAD]
    assert torch.equal(found.mask.expanded(0, 0, N, N), BEHIND)
    (term,) = found.terms
    added = term.scores(None, torch.arange(N), N)
    torch.testing.assert_close(added[:, BEHIND], alibi()[0][:, BEHIND])
    shown = (scores + added).masked_fill(~BEHIND, -torch.inf).softmax(-1)
    torch.testing.assert_close(shown, weights(given, scores)[0])


def test_a_bias_alone_forbids_nothing() -> None:
    for given in (alibi(), alibi()[:, :1], -alibi(), alibi()[:, 2:]):
        found = explain(given, False, N, N, None, CPU)
        assert found.mask.layers == ()
        torch.testing.assert_close(found.terms[0].scores(0, torch.arange(N), N), given[0, 0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("value", [-1e4, None, -torch.inf])
def test_a_mask_is_one_in_every_number_format(value: float | None, dtype: torch.dtype) -> None:
    """bfloat16 has no −10,000: −9,984 is the next; a small bias on top moves it up."""
    lowest = torch.finfo(dtype).min if value is None else value
    for bias in (0.0, 5.0):
        given = forbidding(lowest, dtype) + torch.full((1, HEADS, 1, 1), bias, dtype=dtype)
        found = explain(given, False, N, N, None, CPU)
        assert [layer.name for layer in found.mask.layers] == [LOOK_AHEAD]
        assert torch.equal(found.mask.expanded(0, 0, N, N), BEHIND)
        assert len(found.terms) == (bias != 0)
        for term in found.terms:
            assert (term.scores(None, torch.arange(N), N)[:, BEHIND] == bias).all()


def test_beyond_the_open_distances_a_bias_stays_what_it_is_at_their_ends() -> None:
    """Of a band of open cells, −3 … 1, and what is added when the mask is lifted."""
    table = torch.randn(HEADS, 2 * N - 1)
    allowed = (DISTANCE >= -3) & (DISTANCE <= 1)
    given = table[:, DISTANCE + N - 1].masked_fill(~allowed, -torch.inf)[None]
    (term,) = explain(given, False, N, N, None, CPU).terms
    assert isinstance(term, DistanceTerm)
    held = table[:, DISTANCE.clamp(-3, 1) + N - 1]
    torch.testing.assert_close(term.scores(None, torch.arange(N), N), held)
    torch.testing.assert_close(term.scores(1, torch.tensor([5, 2]), N), held[1, [5, 2]])
    lifted = as_attn_mask(Mask(), (term,), N, N, torch.float32)
    torch.testing.assert_close(lifted[0], held)
    later = as_attn_mask(Mask(), (term,), 2, N, torch.float32)  # the last two queries of a cache
    torch.testing.assert_close(later[0], held[:, -2:])
