"""XLNet against Hugging Face's with copied weights, and on its own: both streams, several orders, two segments, no leak."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small import BATCH, D_FF, D_HEAD, N_HEADS, VOCAB, random_ids, random_xlnet
from torch import Tensor
from transformers import XLNetConfig as TheirConfig
from transformers import XLNetLMHeadModel

from models.architectures.xlnet import TOKEN_IN_ORDER, XLNet, XLNetConfig
from models.checkpoint import Checkpoint
from models.errors import InputError
from models.runs.scope import Scope
from models.tokenizers.base import Tokenizer
from models.trace import Recording, record
from models.trace.outputs import TokenInOrder

N, N_LAYERS, D_MODEL = 13, 2, N_HEADS * (D_HEAD + 1)  # an even d_head: half sines, half cosines


def theirs(model: XLNet) -> XLNetLMHeadModel:
    config = TheirConfig(
        vocab_size=VOCAB,
        d_model=D_MODEL,
        n_layer=N_LAYERS,
        n_head=N_HEADS,
        d_inner=D_FF,
        ff_activation="gelu",
        layer_norm_eps=1e-5,
        dropout=0.0,
        attn_type="bi",
        mem_len=None,
        pad_token_id=0,
    )
    other = XLNetLMHeadModel(config).eval()
    body = other.transformer
    with torch.no_grad():
        body.word_embedding.weight.copy_(model.embedding.weight)
        body.mask_emb.copy_(model.placeholder)
        other.lm_loss.bias.copy_(model.output_bias)
        for block, layer in zip(body.layer, model.encoder.layers, strict=True):
            ours, attention = layer.content_attn, block.rel_attn
            for name, linear in {
                "q": ours.W_Q,
                "k": ours.W_K,
                "v": ours.W_V,
                "r": ours.W_R,
            }.items():
                getattr(attention, name).copy_(linear.weight.T.reshape(D_MODEL, N_HEADS, -1))
            attention.o.copy_(ours.W_O.weight.reshape(D_MODEL, N_HEADS, -1))
            for name, bias in {
                "r_w_bias": ours.u,
                "r_r_bias": ours.v,
                "r_s_bias": ours.s,
                "seg_embed": ours.segment,
            }.items():
                getattr(attention, name).copy_(bias)
            attention.layer_norm.load_state_dict(layer.add_norm_1.layer_norm.state_dict())
            block.ff.layer_norm.load_state_dict(layer.add_norm_2.layer_norm.state_dict())
            block.ff.layer_1.load_state_dict(layer.ff.W_1.state_dict())
            block.ff.layer_2.load_state_dict(layer.ff.W_2.state_dict())
    return other


def rank_of(order: list[int]) -> Tensor:
    return torch.tensor([order.index(position) for position in range(len(order))])


def run(model: XLNet, ids: Tensor, rank: Tensor, segments: Tensor) -> tuple[Tensor, Recording]:
    with record() as recording, torch.no_grad():
        return model(ids, rank.expand_as(ids), segments)[TOKEN_IN_ORDER], recording


ORDERS = {
    "left to right": list(range(N)),
    "right to left": list(range(N))[::-1],
    "shuffled": torch.randperm(N, generator=torch.Generator().manual_seed(7)).tolist(),
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=list(ORDERS))
def test_both_streams_are_those_of_the_library(order):
    """Logits and every head of both streams match. The first token of the order sees nothing: here its row is empty, there uniform,
    so that its own row differs; no other token reads it."""
    model, ids, rank = random_xlnet(), random_ids(BATCH, N), rank_of(order)
    segments = torch.tensor([[0] * 5 + [1] * (N - 5), [0] * N])
    logits, recording = run(model, ids, rank, segments)
    blocked = (
        (rank[None, :] >= rank[:, None]).float().expand(BATCH, N, N)
    )  # in their mask, 1 means that [query, key] is blocked
    with torch.no_grad():
        found = theirs(model)(
            ids,
            perm_mask=blocked,
            target_mapping=torch.eye(N).expand(BATCH, N, N),
            token_type_ids=segments,
            output_attentions=True,
        )
    later = [position for position in range(N) if position != order[0]]
    torch.testing.assert_close(logits[:, later], found.logits[:, later])
    assert list(recording.attention) == [
        f"encoder.layers.{i}.{s}_attn" for i in range(N_LAYERS) for s in ("content", "query")
    ]
    for i, (content, query) in enumerate(found.attentions):  # each (batch, head, query, key)
        for row in range(BATCH):
            sites = (
                recording.attention[f"encoder.layers.{i}.{stream}_attn"]
                for stream in ("content", "query")
            )
            ours = [site.weights(None, row) for site in sites]
            torch.testing.assert_close(ours[0], content[row])
            torch.testing.assert_close(ours[1][:, later], query[row][:, later])
            assert not ours[1][:, order[0]].any()


def test_the_base_model_has_as_many_parameters_as_the_librarys():
    with torch.device("meta"):
        ours, other = (
            XLNet(XLNetConfig.base()),
            XLNetLMHeadModel(TheirConfig(d_model=768, n_layer=12, n_head=12, d_inner=3072)),
        )
    assert (
        sum(p.numel() for p in ours.parameters())
        == sum(p.numel() for p in other.parameters())
        == 116_750_336
    )


@pytest.mark.parametrize("changed", [0, 4, 12])
def test_only_what_may_see_a_token_changes_with_it(changed):
    """In the content stream: the token itself and all after it in the order. In the query stream, and so the logits: only those after it."""
    model, ids, order = random_xlnet(), random_ids(1, N), ORDERS["shuffled"]
    other = ids.clone()
    other[0, changed] = (ids[0, changed] + 1 - 4) % (VOCAB - 4) + 4
    rank, segments = rank_of(order), torch.zeros(1, N, dtype=torch.long)
    (before, first), (after, second) = (
        run(model, ids, rank, segments),
        run(model, other, rank, segments),
    )
    later = rank > rank[changed]
    assert torch.equal((before != after).any(-1)[0], later)
    last = f"encoder.layers.{N_LAYERS - 1}"
    for name, sees in {"resid_post": rank >= rank[changed], "query_resid_post": later}.items():
        moved = (
            first.activations[f"{last}.{name}"].lazy_value
            != second.activations[f"{last}.{name}"].lazy_value
        )
        assert torch.equal(moved.any(-1)[0], sees)


def test_the_figure_of_the_paper():
    """Order 3 → 2 → 4 → 1 (fig. 1 and 4), positions from 1: which may see which."""
    rank = rank_of([2, 1, 3, 0])[None]
    masks = random_xlnet().masks(random_ids(1, 4), rank)
    sees = {
        name: [{j + 1 for j in range(4) if row[j]} for row in mask.expanded(0, 0, 4, 4)]
        for name, mask in masks.items()
    }
    assert sees == {
        "content": [{1, 2, 3, 4}, {2, 3}, {3}, {2, 3, 4}],
        "query": [{2, 3, 4}, {3}, set(), {2, 3}],
    }
    assert masks["query"].blocked_by(0, 0, 4, 4) == ["factorisation order"]


def test_scores_are_the_sum_of_three_terms():
    """Each term follows the paper's formula, cell by cell, from the module's parameters."""
    model, ids = random_xlnet(), random_ids(1, N)
    segments = torch.tensor([[0] * 5 + [1] * (N - 5)])
    _, recording = run(model, ids, rank_of(ORDERS["shuffled"]), segments)
    site, module = (
        recording.attention["encoder.layers.1.query_attn"],
        model.encoder.layers[1].content_attn,
    )
    x, h = (
        recording.activations[f"encoder.layers.1.{mark}resid_pre"].lazy_value[0].double()
        for mark in ("query_", "")
    )
    d, half = D_HEAD + 1, D_MODEL // 2
    waves = 10000 ** (-torch.arange(half, dtype=torch.float64) / half)
    W = {name: getattr(module, f"W_{name}").weight.double() for name in "QKR"}
    for head in range(N_HEADS):
        own = slice(head * d, (head + 1) * d)
        for i, j in ((0, 12), (12, 0), (4, 4), (5, 4), (7, 9)):
            q, k = W["Q"][own] @ x[i], W["K"][own] @ h[j]
            r = W["R"][own] @ torch.cat([((i - j) * waves).sin(), ((i - j) * waves).cos()])
            e = module.segment[int(segments[0, i] != segments[0, j]), head]
            parts = [
                (q + module.u[head]) @ k,
                (q + module.v[head]) @ r,
                (q + module.s[head]) @ e.double(),
            ]
            queries = torch.tensor([i])
            expected = [float(part.detach()) / d**0.5 for part in parts]
            content = site.similarity(site.q[0, head], site.k[0, head])[i, j]
            found = [content, *(term.scores(head, queries, N)[0, j] for term in site.terms)]
            assert [term.name for term in site.terms] == ["position", "segment"]
            assert [float(part) for part in found] == pytest.approx(expected, abs=1e-4)
            assert float(site.scores(head)[i, j]) == pytest.approx(sum(expected), abs=1e-4)


def test_padding_changes_nothing():
    """A row padded to twice its length has the same logits and weights, wherever the padding is in the order."""
    model, ids = random_xlnet(), random_ids(1, N)
    rank = rank_of(ORDERS["shuffled"])
    padded = torch.cat([ids, torch.zeros(1, 7, dtype=torch.long)], 1)
    wide = torch.cat([rank, torch.arange(N, N + 7)])
    plain, first = run(model, ids, rank, torch.zeros_like(ids))
    logits, second = run(model, padded, wide, torch.zeros_like(padded))
    torch.testing.assert_close(logits[:, :N], plain)
    name = "encoder.layers.1.query_attn"
    torch.testing.assert_close(
        second.attention[name].weights()[:, :N, :N], first.attention[name].weights()
    )


def test_the_query_stream_costs_no_weights():
    small = random_xlnet()
    names = {name for name, _ in small.named_parameters()}
    assert not any("query" in name for name in names)
    assert replace(small.config, d_ff=0).d_ff == 4 * D_MODEL


@pytest.fixture(scope="module")
def scope() -> Scope:
    tokenizer = Tokenizer.characters("abcdefgh")
    model = random_xlnet(vocab_size=tokenizer.vocab_size)
    return Scope(Checkpoint(Path("orders"), model, tokenizer, {}), torch.device("cpu"))


def test_a_text_is_read_in_the_given_order(scope):
    """It equals the model called with these ranks; each token's surprisal is at its own position."""
    order = [2, 4, 0, 3, 1]
    run = scope.run("abcde", order=order)
    output, ids = run.outputs[TOKEN_IN_ORDER], run.streams["text"].ids
    assert (type(output), output.stream, output.order, output.labels) == (
        TokenInOrder,
        "text",
        tuple(order),
        ids,
    )
    with torch.no_grad():
        logits = scope.model(torch.tensor([ids]), rank_of(order)[None])[TOKEN_IN_ORDER][0]
    torch.testing.assert_close(output.logits, logits)
    bits = [-math.log2(float(logits[i].double().softmax(-1)[token])) for i, token in enumerate(ids)]
    assert output.surprisal.tolist() == pytest.approx(bits, rel=1e-4)
    assert output.predicted == scope.tokenizer.tokens(logits.argmax(-1).tolist())
    assert {site.role for site in run.attention.values()} == {"content", "query"}
    assert {site.query_stream for site in run.attention.values()} == {"text"}
    sees = run.attention["encoder.layers.0.query_attn"].allowed()
    assert [sorted(row.nonzero().flatten().tolist()) for row in sees] == [
        [2, 4],
        [0, 2, 3, 4],
        [],
        [0, 2, 4],
        [2],
    ]


def test_without_an_order_it_is_read_from_left_to_right(scope):
    plain, given = (
        scope.run("abcde").outputs[TOKEN_IN_ORDER],
        scope.run("abcde", order=range(5)).outputs[TOKEN_IN_ORDER],
    )
    assert torch.equal(plain.logits, given.logits)
    assert plain.order == (0, 1, 2, 3, 4)


def test_several_orders_in_one_batch(scope):
    """Each gives what it gives alone, though the batch is padded to the longest."""
    asked = [("abcde", None, [2, 4, 0, 3, 1]), ("cab", "fg", [4, 1, 0, 3, 2]), ("ah", None, None)]
    for texts, run in zip(asked, scope.run_each(asked), strict=True):
        alone = scope.run(*texts)
        torch.testing.assert_close(
            run.outputs[TOKEN_IN_ORDER].logits, alone.outputs[TOKEN_IN_ORDER].logits
        )
        for name, site in run.attention.items():
            torch.testing.assert_close(site.weights(), alone.attention[name].weights())
            torch.testing.assert_close(site.head_out(), site.out[0], atol=1e-5, rtol=1e-4)


def test_a_second_text_is_in_a_separate_segment(scope):
    """It changes the scores only by the segment term: in one segment the same tokens have other weights."""
    two, one = scope.run("cab", "fg"), scope.run("cab fg")
    assert two.streams["text"].segments == (0, 0, 0, 1, 1)
    site = two.attention["encoder.layers.0.content_attn"]
    term = site.terms[1].scores(0, torch.arange(5), 5)
    assert torch.equal(term[0, :3], term[0, :1].expand(3))
    assert not torch.isclose(term[0, 2], term[0, 3])
    assert len(one.streams["text"].segments) == 6


@pytest.mark.parametrize(
    "order", [[0, 1, 2], [0, 1, 2, 3, 3], [1, 2, 3, 4, 5], [0, 1, 2, 3, -1], []]
)
def test_an_invalid_order_is_refused(scope, order):
    with pytest.raises(
        InputError, match="the order must name each of the 5 tokens once, from 0 to 4"
    ) as caught:
        scope.run("abcde", order=order)
    assert caught.value.field == "order"
