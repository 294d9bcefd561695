"""Each similarity against its formula, cell by cell, and the fused route against the readable one."""

import math

import pytest
import torch
from small import (
    BATCH,
    D_HEAD,
    N_HEADS,
    N_SOURCE,
    N_TARGET,
    random_attention_only,
    random_ids,
    random_model,
    random_seq2seq,
)

from models.analysis.checks import check_site
from models.layers.masks import Mask, MaskLayer
from models.layers.similarity import (
    SIMILARITIES,
    AttentionSimilarity,
    LearnedSimilarity,
    masked_softmax,
)
from models.trace import finish, record


def cell_by_hand(
    name: str, q: torch.Tensor, k: torch.Tensor, learned: dict[str, torch.Tensor]
) -> float:
    """Return the score of one query and one key, in plain Python."""
    product = (
        sum(a * b for a, b in zip(q.tolist(), k.tolist(), strict=True)) if len(q) == len(k) else 0.0
    )
    if name == "dot":
        return product
    if name == "scaled dot":
        return product / math.sqrt(len(q))
    if name == "cosine":
        return (
            math.exp(learned["log_t"])
            * product
            / (math.hypot(*q.tolist()) * math.hypot(*k.tolist()))
        )
    if name == "general":
        return sum(
            float(q[i] * learned["M"][i, j] * k[j]) for i in range(len(q)) for j in range(len(k))
        )
    hidden = [
        math.tanh(float(w @ q + u @ k)) for w, u in zip(learned["W"], learned["U"], strict=True)
    ]
    return sum(float(v) * h for v, h in zip(learned["v"], hidden, strict=True))


def layer(name: str) -> LearnedSimilarity:
    made = LearnedSimilarity(name, D_HEAD)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return made


@pytest.mark.parametrize("name", SIMILARITIES)
def test_every_cell_follows_the_formula(name):
    q, k = torch.randn(N_TARGET, D_HEAD), torch.randn(N_SOURCE, D_HEAD)
    similarity = layer(name).detached()
    scores = similarity(q, k)
    by_hand = [[cell_by_hand(name, a, b, similarity.learned) for b in k] for a in q]
    torch.testing.assert_close(scores, torch.tensor(by_hand), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", SIMILARITIES)
def test_the_weights_shown_are_those_of_the_fused_kernel(name, masked):
    q, k, v = (torch.randn(BATCH, N_HEADS, n, D_HEAD) for n in (N_TARGET, N_SOURCE, N_SOURCE))
    allowed = (torch.rand(BATCH, 1, N_TARGET, N_SOURCE) < 0.6) if masked else None
    made = layer(name)
    mask = Mask([MaskLayer("drawn by hand", allowed)] if masked else [])
    torch.testing.assert_close(
        made.attend(q, k, v, mask), masked_softmax(made.detached()(q, k), allowed) @ v
    )


@pytest.mark.parametrize("name", SIMILARITIES)
def test_a_model_of_each_similarity_passes_its_checks_and_learns_it(name):
    for model in (random_model(similarity=name), random_attention_only(similarity=name)):
        source, target = random_ids(1, N_SOURCE), random_ids(1, N_TARGET)
        with record() as recording:
            logits = model(source, target)
        names = {"source": ("x",) * N_SOURCE, "target": ("y",) * N_TARGET}
        _, sites = finish(recording, names)
        assert {s.similarity.name for s in sites.values()} == {name}
        assert [c.name for s in sites.values() for c in check_site(s) if not c.passed] == []
        logits.square().sum().backward()
        assert all(
            p.grad is not None and p.grad.abs().max() > 0
            for n, p in model.named_parameters()
            if "similarity" in n
        )


def test_general_begins_as_the_scaled_dot_product_and_cosine_is_bounded_by_its_temperature():
    q, k = 9 * torch.randn(N_TARGET, D_HEAD), 9 * torch.randn(N_SOURCE, D_HEAD)
    torch.testing.assert_close(
        LearnedSimilarity("general", D_HEAD)(q, k), AttentionSimilarity()(q, k)
    )
    cosine = LearnedSimilarity("cosine", D_HEAD)
    assert float(cosine.log_t.detach().exp()) == pytest.approx(10)
    angles = torch.nn.functional.cosine_similarity(q[:, None], k[None], dim=-1)
    torch.testing.assert_close(cosine(q, k), 10 * angles, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(cosine(3 * q, k), cosine(q, k))  # lengths do not matter


def test_the_name_and_formula_of_each_similarity():
    learned = {
        name: [n for n, _ in LearnedSimilarity(name, 7).named_parameters()] for name in SIMILARITIES
    }
    assert {name: (AttentionSimilarity(name).formula, learned[name]) for name in SIMILARITIES} == {
        "dot": ("q·k", []),
        "scaled dot": ("q·k/√d", []),
        "cosine": ("t·cos(q, k)", ["log_t"]),
        "general": ("q·M·k", ["M"]),
        "additive": ("v·tanh(W q + U k)", ["W", "U", "v"]),
    }  # fmt: skip
    assert AttentionSimilarity().name == "scaled dot"


def test_queries_and_keys_of_different_widths():
    """Bahdanau's alignment has them: queries of 7, keys of 11, 5 hidden units; M of 7 × 11."""
    shapes = {
        n: tuple(p.shape) for n, p in LearnedSimilarity("additive", 7, 11, 5).named_parameters()
    }
    assert shapes == {"W": (5, 7), "U": (5, 11), "v": (5,)}
    (M,) = LearnedSimilarity("general", 7, 11).parameters()
    torch.testing.assert_close(M.detach(), torch.eye(7, 11) / 7**0.5)
    torch.manual_seed(1)
    v = LearnedSimilarity("additive", 3, 3, 2000).v.detach()
    assert float(v.square().sum()) == pytest.approx(
        1, abs=0.15
    )  # ‖v‖² = 1 on average, whatever its length


def test_an_unknown_similarity_is_refused():
    with pytest.raises(
        ValueError,
        match="similarity must be one of dot, scaled dot, cosine, general, additive, not 'l2'",
    ):
        random_model(similarity="l2")


def test_another_similarity_scores_the_same_trained_weights(scope):
    trained = scope.run("abc", "cba")
    again = scope.with_similarity("scaled dot").run("abc", "cba")
    torch.testing.assert_close(again.next_token.logits, trained.next_token.logits, rtol=0, atol=0)
    other = scope.with_similarity("dot")
    first = other.run("abc", "cba").attention["encoder.layers.0.self_attn"]
    was = trained.attention["encoder.layers.0.self_attn"]
    assert torch.equal(first.q, was.q)  # the first layer reads the same, and scores it otherwise
    torch.testing.assert_close(first.scores(), was.scores() * math.sqrt(was.d_head))
    assert [c.name for c in check_site(first) if not c.passed] == []
    for name in SIMILARITIES:
        twice = [scope.with_similarity(name).run("abc", "cba").next_token.logits for _ in range(2)]
        assert torch.equal(*twice)
    torch.testing.assert_close(
        scope.run("abc", "cba").next_token.logits, trained.next_token.logits, rtol=0, atol=0
    )


def test_an_alignment_cannot_be_exchanged(scope):
    model = random_seq2seq(vocab_size=scope.config.vocab_size)
    odd = type(scope).__new__(type(scope))
    odd.__dict__.update(scope.__dict__ | {"model": model})
    with pytest.raises(ValueError, match="its similarity cannot be replaced"):
        odd.with_similarity("dot")
