"""models.analysis.head_walk: each step of the walk against a second route (the module itself, einsum, autograd)."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small import forbidding, padded_ids, random_model, random_seq2seq
from torch import Tensor

from models import Scope
from models.analysis import head_sum, head_walk, softmax, walk_checks
from models.architectures.transformer import Transformer, TransformerConfig
from models.checkpoint import Checkpoint
from models.layers.similarity import SIMILARITIES
from models.tokenizers.base import Tokenizer
from models.trace import record

HEADS, D_HEAD = 3, 5
SITES = ["encoder.layers.1.self_attn", "decoder.layers.0.self_attn", "decoder.layers.1.cross_attn"]


def scope(norm: str = "post") -> Scope:
    """An untrained model with all-different sizes, for tests of arithmetic only."""
    torch.manual_seed(7)
    tokenizer = Tokenizer.characters("abcdefghi ")
    config = TransformerConfig(
        tokenizer.vocab_size,
        d_model=HEADS * D_HEAD,
        n_heads=HEADS,
        n_encoder_layers=2,
        n_decoder_layers=2,
        d_ff=31,
        n_ctx=23,
        norm=norm,
    )
    model = Transformer(config).eval().requires_grad_(False)
    for parameter in model.parameters():
        torch.nn.init.normal_(
            parameter, std=0.4
        )  # biases too: a zero bias would hide a forgotten one
    return Scope(Checkpoint(Path("test"), model, tokenizer, {}), torch.device("cpu"))


@pytest.fixture(scope="module", params=["post", "pre"])
def run(request):
    made = scope(request.param)
    return made.model, made.run("abcdefg", "hihaga gig")


@pytest.mark.parametrize("name", SITES)
@pytest.mark.parametrize("head", range(HEADS))
def test_the_walk_ends_in_the_modules_own_output(run, name, head):
    _, trace = run
    site = trace.attention[name]
    query = site.q.shape[2] - 2
    w = head_walk.head_walk(site, query, head)
    torch.testing.assert_close(w.b, site.out[0, head, query])
    torch.testing.assert_close(w.comparison.terms.sum(-1), w.scores)
    torch.testing.assert_close(w.comparison.elementwise.sum(-1), w.raw)
    torch.testing.assert_close(w.parts.sum(0), w.b)
    torch.testing.assert_close(w.scores.masked_fill(~w.allowed, -torch.inf).softmax(-1), w.weights)
    torch.testing.assert_close(
        w.raw, torch.einsum("d,kd->k", site.q[0, head, query], site.k[0, head])
    )
    assert torch.isinf(w.masked[~w.allowed]).all()
    torch.testing.assert_close(w.masked[w.allowed], w.scores[w.allowed])


@pytest.mark.parametrize("name", SITES)
def test_q_k_v_come_from_the_modules_own_projections(run, name):
    model, trace = run
    site, module = trace.attention[name], model.get_submodule(name)
    for head in range(HEADS):
        w = head_walk.head_walk(site, 1, head)
        own = slice(head * D_HEAD, (head + 1) * D_HEAD)
        torch.testing.assert_close(w.q, module.W_Q(w.a)[own])
        torch.testing.assert_close(w.k, module.W_K(w.memory)[:, own])
        torch.testing.assert_close(w.v, module.W_V(w.memory)[:, own])
        weight, bias = head_walk.head_projection(site, "W_Q", head)
        torch.testing.assert_close(w.a @ weight + bias, w.q)


@pytest.mark.parametrize("name", SITES)
def test_the_heads_add_up_to_the_sublayers_output(run, name):
    model, trace = run
    site, module = trace.attention[name], model.get_submodule(name)
    query = 3
    parts = head_sum.head_sum(trace, site, query)
    torch.testing.assert_close(parts.total, trace.activations[f"{name}.attn_out"].value[0, query])
    torch.testing.assert_close(parts.total, module.W_O(parts.head_out.flatten()))
    blocks = module.W_O.weight.unflatten(1, (HEADS, D_HEAD))
    torch.testing.assert_close(parts.added, torch.einsum("hd,mhd->hm", parts.head_out, blocks))
    torch.testing.assert_close(parts.norms, head_sum.added_norms(site)[:, query])
    for head in range(HEADS):
        torch.testing.assert_close(parts.added[head], head_walk.head_walk(site, query, head).added)


def test_norms_of_added_vectors_for_any_row_of_a_batch():
    model = random_model()
    with record() as recording, torch.no_grad():
        model(*padded_ids())
    for name in ("encoder.layers.0.self_attn", "decoder.layers.1.cross_attn"):
        site, module = recording.attention[name], model.get_submodule(name)
        blocks = module.W_O.weight.detach().unflatten(
            1, (site.n_heads, -1)
        )  # (d_model, head, d_head)
        for batch in (0, 1):
            by_hand = torch.einsum("hqd,mhd->hqm", site.out[batch], blocks).norm(dim=-1)
            torch.testing.assert_close(
                head_sum.added_norms(site, batch), by_hand, rtol=1e-4, atol=1e-5
            )
            walked = head_walk.head_walk(site, 3, 1, batch)
            torch.testing.assert_close(walked.a, site.x[batch, 3])
            torch.testing.assert_close(walked.b, site.out[batch, 1, 3], rtol=1e-4, atol=1e-5)
            assert torch.equal(walked.allowed, site.allowed(batch, 1)[3])
            raw = torch.einsum("qd,kd->qk", site.q[batch, 2], site.k[batch, 2])
            torch.testing.assert_close(softmax.raw_scores(site, 2, batch), raw)
    site = recording.attention["decoder.layers.1.self_attn"]
    assert (
        head_walk.head_walk(site, 3, 1).query,
        head_walk.head_walk(site, 3, 1).head,
        site.layer,
    ) == (
        3,
        1,
        1,
    )


def test_an_alignment_has_no_heads_to_add(run):
    model = random_seq2seq()
    with record() as recording, torch.no_grad():
        model(*padded_ids())
    _, trace = run
    with pytest.raises(
        ValueError, match=r"^decoder\.alignment has no W_O: its context is used as it is$"
    ):
        head_sum.head_sum(trace, recording.attention["decoder.alignment"], 0)
    with pytest.raises(ValueError, match=r"^query must be 0 to 12 at this site, not 13$"):
        head_sum.head_sum(trace, recording.attention["decoder.alignment"], 13)


def test_the_residual_stream_is_what_the_next_activation_was_made_from(run):
    model, trace = run
    for name, after in (
        (SITES[0], "resid_mid"),
        (SITES[1], "resid_mid"),
        (SITES[2], "resid_mid_cross"),
    ):
        layer = name.rsplit(".", 1)[0]
        for query in range(4):
            parts = head_sum.head_sum(trace, trace.attention[name], query)
            summed = parts.residual + parts.total
            if model.config.norm == "post":
                owner = model.get_submodule(layer)
                summed = (owner.add_norm_2 if "cross" in name else owner.add_norm_1).layer_norm(
                    summed
                )
            torch.testing.assert_close(
                summed, trace.activations[f"{layer}.{after}"].value[0, query]
            )


def test_cosines(run):
    _, trace = run
    parts = head_sum.head_sum(trace, trace.attention[SITES[0]], 2)
    by_hand = (parts.added @ parts.total) / (parts.norms * parts.total.norm())
    torch.testing.assert_close(parts.along_total, by_hand)
    stream = trace.activations["encoder.layers.1.resid_pre"].value[0, 2]
    for h in range(HEADS):
        one = parts.added[h].double().numpy()
        along = (
            one
            @ stream.double().numpy()
            / (np.linalg.norm(one) * np.linalg.norm(stream.double().numpy()))
        )
        assert float(parts.along_residual[h]) == pytest.approx(along, abs=1e-5)
        for g in range(HEADS):
            other = parts.added[g].double().numpy()
            between = one @ other / (np.linalg.norm(one) * np.linalg.norm(other))
            assert float(parts.between[h, g]) == pytest.approx(between, abs=1e-5)
    assert len({round(float(x), 3) for x in parts.along_residual}) == HEADS


def test_entropy_equals_that_of_torchs_distribution():
    weights = torch.randn(5, 11).softmax(-1)
    torch.testing.assert_close(
        softmax.entropy_nats(weights), torch.distributions.Categorical(weights).entropy()
    )
    assert softmax.entropy_nats(torch.tensor([0.0, 1.0, 0.0])) == 0
    torch.testing.assert_close(
        softmax.entropy_nats(torch.full((7,), 1 / 7)), torch.tensor(7.0).log()
    )


def softmax_gradient(weights: torch.Tensor) -> torch.Tensor:
    """Return diag(p) − p·pᵀ, the Jacobian of softmax at its output p."""
    return torch.diag_embed(weights) - weights[..., :, None] * weights[..., None, :]


def test_the_softmax_gradient_matches_autograd():
    scores = torch.randn(7, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), scores)
    weights = scores.softmax(-1)
    torch.testing.assert_close(softmax_gradient(weights), jacobian)
    torch.testing.assert_close(softmax.gradient_norm(weights), jacobian.norm())
    settled = torch.tensor([9.0, 1.0, -3.0, 0.0]).softmax(-1)
    torch.testing.assert_close(
        softmax.gradient_norm(settled), softmax_gradient(settled).norm(), rtol=1e-3, atol=0
    )
    many = torch.randn(3, 13).softmax(-1)
    torch.testing.assert_close(
        softmax.gradient_norm(many), softmax_gradient(many).flatten(1).norm(dim=-1)
    )


def test_dividing_by_the_root_of_d_head_gives_the_model_and_by_one_no_scaling(run):
    _, trace = run
    site = trace.attention[SITES[1]]
    raw, allowed = softmax.raw_scores(site, 1), site.allowed()
    own = softmax.scaling(raw, allowed, D_HEAD**0.5)
    torch.testing.assert_close(own.weights, site.weights(1))
    without = softmax.scaling(raw, allowed, 1.0)
    torch.testing.assert_close(
        without.weights, F.softmax(raw.masked_fill(~allowed, -torch.inf), -1)
    )
    assert (without.entropy <= own.entropy + 1e-6).all()  # a larger divisor is a higher temperature
    with pytest.raises(ValueError, match="the divisor must be positive, not 0"):
        softmax.scaling(raw, allowed, 0.0)


def test_a_row_the_mask_empties_gives_zeros():
    made = scope()
    drawn = torch.ones(11, 11, dtype=torch.bool)
    drawn[4] = False
    trace = made.run("abcdefg", "hihaga gig", edits=forbidding({"decoder_self": drawn}))
    site = trace.attention[SITES[1]]
    w = head_walk.head_walk(site, 4, 0)
    assert not w.allowed.any()
    assert w.weights.eq(0).all()
    assert w.b.eq(0).all()
    assert all(check.passed for check in walk_checks.check_walk(trace, site, 4, 0))
    nothing = softmax.scaling(softmax.raw_scores(site, 0), site.allowed(), 1.0)
    assert nothing.entropy[4] == 0
    assert nothing.gradient[4] == 0


def test_the_checks_pass_on_a_true_run(run):
    _, trace = run
    for name in SITES:
        for head in range(HEADS):
            checks = walk_checks.check_walk(trace, trace.attention[name], 5, head)
            assert all(check.passed for check in checks), [c for c in checks if not c.passed]


@pytest.mark.parametrize(
    ("query", "head", "message"),
    [
        (8, 0, r"query must be 0 to 7 at this site, not 8"),
        (-1, 0, r"query must be 0 to 7 at this site, not -1"),
        (0, 3, r"head must be 0 to 2 at this site, not 3"),
    ],
)
def test_missing_parts_are_named(run, query, head, message):
    _, trace = run
    with pytest.raises(ValueError, match=message):
        head_walk.head_walk(trace.attention[SITES[0]], query, head)


def terms_by_hand(name: str, q: Tensor, k: Tensor, learned: dict[str, Tensor]) -> Tensor:
    """Return the terms of each similarity's formula, number by number, before they are summed; (key, term)."""
    if name == "additive":
        return learned["v"] * torch.tanh(learned["W"] @ q + (learned["U"] @ k.T).T)
    if name == "cosine":
        return learned["log_t"].exp() * q * k / (q.norm() * k.norm(dim=-1, keepdim=True))
    if name == "general":
        return (learned["M"].T @ q) * k
    return q * k / len(q) ** 0.5 if name == "scaled dot" else q * k


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_the_walk_of_any_similarity_adds_up(similarity):
    """Terms add up to the score and parts to the fused kernel's output, by the checks and by the formula written out again."""
    made = random_model(similarity=similarity)
    with record() as recording:
        made(*padded_ids())
    for site in recording.attention.values():
        w = head_walk.head_walk(site, 2, 1)
        q, k, learned = site.q[0, 1, 2], site.k[0, 1], site.similarity.learned
        compared = {
            "q": q,
            "k": k,
            "elementwise": q * k,
        }  # as they are compared, and their products
        if similarity == "cosine":
            q_one, k_one = q / q.norm(), k / k.norm(dim=-1, keepdim=True)
            compared = {"q": q_one, "k": k_one, "elementwise": q_one * k_one}
        elif similarity == "general":
            compared = {"q": learned["M"].T @ q, "k": k, "elementwise": (learned["M"].T @ q) * k}
        elif similarity == "additive":
            added = [learned["W"] @ q + learned["U"] @ key for key in k]
            keys = torch.stack([learned["U"] @ key for key in k])
            compared = {"q": learned["W"] @ q, "k": keys, "elementwise": torch.stack(added).tanh()}
        for name, wanted in compared.items():
            torch.testing.assert_close(getattr(w.comparison, name), wanted, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(w.raw, compared["elementwise"].sum(-1), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(
            w.comparison.terms, terms_by_hand(similarity, q, k, learned), rtol=1e-4, atol=1e-5
        )
        torch.testing.assert_close(w.comparison.terms.sum(-1), w.scores, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(w.parts.sum(0), site.out[0, 1, 2], rtol=1e-4, atol=1e-5)
