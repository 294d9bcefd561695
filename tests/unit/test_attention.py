"""The readable attention against torch's fused kernel, arithmetic by hand, and numerical gradients."""

import math

import pytest
import torch
import torch.nn.functional as F
from small import BATCH, D_HEAD, N_HEADS, N_SOURCE, N_TARGET

from models.architectures.encoder_decoder import CROSS, ENCODER_SELF
from models.layers.attention import MultiHeadAttention
from models.layers.cache import Cache
from models.layers.masks import Mask, MaskLayer
from models.layers.similarity import masked_softmax, scaled_dot
from models.trace import record

SHAPE = (BATCH, N_HEADS, N_TARGET, D_HEAD)


def q_k_v() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return (
        torch.randn(SHAPE),
        torch.randn(BATCH, N_HEADS, N_SOURCE, D_HEAD),
        torch.randn(BATCH, N_HEADS, N_SOURCE, D_HEAD),
    )


def test_two_queries_and_three_keys_by_hand():
    q = torch.tensor([[2.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    k = torch.tensor(
        [[math.log(3), 5.0, 0.0, 0.0], [0.0, 7.0, 0.0, 0.0], [math.log(4), -1.0, 0.0, 0.0]]
    )
    v = torch.tensor([[8.0, 0.0], [0.0, 16.0], [0.0, 24.0]])
    scores = scaled_dot(q, k)  # √d_head is 2
    torch.testing.assert_close(
        scores, torch.tensor([[math.log(3), 0.0, math.log(4)], [0.0, 0.0, 0.0]])
    )
    weights = masked_softmax(scores, torch.tensor([[True, True, True], [True, False, True]]))
    torch.testing.assert_close(weights, torch.tensor([[3 / 8, 1 / 8, 4 / 8], [1 / 2, 0.0, 1 / 2]]))
    torch.testing.assert_close(weights @ v, torch.tensor([[3.0, 14.0], [4.0, 12.0]]))


@pytest.mark.parametrize("masked", [False, True])
def test_the_readable_route_matches_the_fused_kernel(masked):
    q, k, v = q_k_v()
    allowed = torch.rand(BATCH, 1, N_TARGET, N_SOURCE) < 0.6 if masked else None
    fused = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
    torch.testing.assert_close(masked_softmax(scaled_dot(q, k), allowed) @ v, fused)


def test_a_row_with_nothing_allowed_gives_zeros_in_both_routes_and_no_gradient():
    q, k, v = (t.requires_grad_() for t in q_k_v())
    allowed = torch.ones(N_TARGET, N_SOURCE, dtype=torch.bool)
    allowed[4] = False
    weights = masked_softmax(scaled_dot(q, k), allowed)
    assert weights[:, :, 4].abs().max() == 0
    for out in (weights @ v, F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)):
        assert out[:, :, 4].abs().max() == 0
        (gradient,) = torch.autograd.grad(out.sum(), q, retain_graph=True)
        assert gradient.isfinite().all()
        assert gradient[:, :, 4].abs().max() == 0 < gradient[:, :, 3].abs().max()


def test_blocked_cells_are_exactly_zero_and_rows_sum_to_one():
    allowed = torch.rand(N_TARGET, N_SOURCE) < 0.5
    allowed[:, 0] = True
    weights = masked_softmax(100 * torch.randn(N_HEADS, N_TARGET, N_SOURCE), allowed)
    assert (weights[:, ~allowed] == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(N_HEADS, N_TARGET))


def test_gradcheck_of_the_readable_attention():
    q, k, v = (t[0, 0].double().requires_grad_() for t in q_k_v())
    allowed = torch.ones(N_TARGET, N_SOURCE, dtype=torch.bool).tril()
    torch.autograd.gradcheck(
        lambda q, k, v: masked_softmax(scaled_dot(q, k), allowed) @ v, (q, k, v)
    )


def test_multi_head_is_every_head_alone_concatenated_and_mixed_by_w_o():
    d_model = N_HEADS * D_HEAD
    attention = MultiHeadAttention(d_model, N_HEADS, CROSS)
    for bias in (attention.W_Q.bias, attention.W_K.bias, attention.W_V.bias, attention.W_O.bias):
        torch.nn.init.normal_(bias)
    x, memory = torch.randn(BATCH, N_TARGET, d_model), torch.randn(BATCH, N_SOURCE, d_model)
    heads = []
    for h in range(N_HEADS):
        rows = slice(h * D_HEAD, (h + 1) * D_HEAD)
        q = x @ attention.W_Q.weight[rows].T + attention.W_Q.bias[rows]
        k = memory @ attention.W_K.weight[rows].T + attention.W_K.bias[rows]
        v = memory @ attention.W_V.weight[rows].T + attention.W_V.bias[rows]
        heads.append((q @ k.transpose(1, 2) / math.sqrt(D_HEAD)).softmax(-1) @ v)
    by_hand = torch.cat(heads, dim=-1) @ attention.W_O.weight.T + attention.W_O.bias
    torch.testing.assert_close(attention(x, memory, Mask()), by_hand)


def test_a_mask_may_differ_from_head_to_head():
    attention = MultiHeadAttention(N_HEADS * D_HEAD, N_HEADS, ENCODER_SELF).eval()
    x = torch.randn(1, N_SOURCE, N_HEADS * D_HEAD)
    allowed = torch.rand(1, N_HEADS, N_SOURCE, N_SOURCE) < 0.5
    allowed[..., 2] = True
    with record() as recording:
        attention(x, x, Mask([MaskLayer("drawn by hand", allowed)]))
    site = recording.attention["attention"]
    torch.testing.assert_close(site.head_out(), site.out[0])
    for h in range(N_HEADS):
        assert torch.equal(site.weights(h), site.weights()[h])
        assert torch.equal(site.allowed(head=h), allowed[0, h])
        query, key = (~allowed[0, h]).nonzero()[0].tolist()
        assert site.blocked_by(query, key, head=h) == ["drawn by hand"]


def test_the_cache_grows_by_the_new_positions_and_follows_a_reordering():
    cache = Cache()
    first, second = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 1, 7)
    cache.append("a", first, -first)
    k, v = cache.append("a", second, -second)
    assert torch.equal(k, torch.cat([first, second], 2))
    assert torch.equal(v, -k)
    cache.reorder(torch.tensor([1, 1, 0]))
    assert torch.equal(cache.get("a")[0], k[[1, 1, 0]])
    assert "b" not in cache


def test_the_cache_continues_where_it_was_cut_and_keeps_earlier_results_intact_when_it_grows():
    cache, positions = Cache(), torch.randn(2, 3, 101, 7)
    cache.append("a", positions[:, :, :5], -positions[:, :, :5])
    cache.append("a", torch.randn(2, 3, 2, 7), torch.randn(2, 3, 2, 7))
    cache.cut(5)
    given = []
    for n in range(5, 101):
        k, v = cache.append("a", positions[:, :, n : n + 1], -positions[:, :, n : n + 1])
        assert k.shape == v.shape == (2, 3, n + 1, 7)
        given.append((k, v))
    for n, (k, v) in zip(range(5, 101), given, strict=True):
        assert torch.equal(k, positions[:, :, : n + 1])
        assert torch.equal(v, -k)


def test_q_k_and_v_are_the_same_with_and_without_a_cache():
    attention = MultiHeadAttention(N_HEADS * D_HEAD, N_HEADS, ENCODER_SELF).eval()
    for layer in (attention.W_Q, attention.W_K, attention.W_V):
        torch.nn.init.normal_(layer.bias)
    x = torch.randn(2, 7, N_HEADS * D_HEAD)
    with record() as alone, torch.no_grad():
        whole = attention(x, x, Mask())
    with record() as cached, torch.no_grad():
        torch.testing.assert_close(attention(x, x, Mask(), Cache()), whole)
    for part in ("q", "k", "v"):
        torch.testing.assert_close(
            getattr(cached.attention["attention"], part),
            getattr(alone.attention["attention"], part),
        )


@pytest.mark.parametrize("n_heads", [4, 0, -3])
def test_heads_must_divide_d_model(n_heads):
    with pytest.raises(
        ValueError, match=rf"d_model \(30\) must be divisible by n_heads \({n_heads}\)"
    ):
        MultiHeadAttention(30, n_heads, CROSS)
