"""Attention layers and nothing else: against the formula of each stage, and step by step."""

import math

import pytest
import torch
from small import (
    BATCH,
    N_HEADS,
    N_SOURCE,
    N_TARGET,
    VOCAB,
    padded_ids,
    random_attention_only,
    random_ids,
)

from models import decoding
from models.analysis import head_sum
from models.analysis.checks import check_site
from models.architectures.attention_only import AttentionOnly, AttentionOnlyConfig
from models.trace import Trace, finish, record

STAGES = {   # name → (self-attention layers, heads, whether with Add & Norm)
    "Attn(X, X')": (0, 1, False), "Attn(X, X)": (1, 1, False), "several heads": (1, N_HEADS, False),
    "stacked": (3, N_HEADS, False), "stacked, with Add & Norm": (3, N_HEADS, True),
}  # fmt: skip


def by_hand(model: AttentionOnly, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the logits of one unpadded pair, head by head: c = Σ softmax(q·k/√d)·v, Concat, W_O; then Add & Norm, if any."""
    d = model.config.d_model // model.config.n_heads

    def attend(module, x, memory, causal):
        heads = []
        for head in range(model.config.n_heads):
            own = slice(head * d, (head + 1) * d)
            q, k, v = (
                y @ w.weight[own].T + w.bias[own]
                for y, w in ((x, module.W_Q), (memory, module.W_K), (memory, module.W_V))
            )
            scores = q @ k.T / math.sqrt(d)
            if causal:
                scores = scores + torch.full_like(scores, -torch.inf).triu(1)
            heads.append(scores.softmax(-1) @ v)
        return torch.cat(heads, -1) @ module.W_O.weight.T + module.W_O.bias

    def embedded(ids):
        return model.embedding.weight[ids] * math.sqrt(model.config.d_model) + model.positions(
            len(ids), 0
        )

    def add_norm(parts, x, attended):
        if not model.config.residual:
            return attended
        summed, norm = x + attended, parts["layer_norm"]
        centred = summed - summed.mean(-1, keepdim=True)
        return (
            centred / (centred.square().mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight
            + norm.bias
        )

    x, y = embedded(source), embedded(target)
    for layer in model.encoder.layers:
        x = add_norm(layer, x, attend(layer["self_attn"], x, x, False))
    for layer in model.decoder.layers:
        y = add_norm(layer, y, attend(layer["self_attn"], y, y, True))
    return (
        add_norm(model.decoder.cross, y, attend(model.decoder.cross_attn, y, x, False))
        @ model.embedding.weight.T
    )


@pytest.mark.parametrize(("layers", "heads", "residual"), STAGES.values(), ids=STAGES)
def test_each_stage_follows_its_formula_with_and_without_padding(layers, heads, residual):
    """Double precision is used because without LayerNorm values, and so rounding errors, grow from layer to layer."""
    model = random_attention_only(n_self_layers=layers, n_heads=heads, residual=residual).double()
    source, target = padded_ids()
    with record() as recording:
        logits = model(source, target)
    torch.testing.assert_close(
        logits[0], by_hand(model, source[0], target[0]), rtol=1e-9, atol=1e-9
    )
    torch.testing.assert_close(
        logits[1, :5], by_hand(model, source[1, :7], target[1, :5]), rtol=1e-9, atol=1e-9
    )
    assert len(recording.attention) == 2 * layers + 1
    assert {s.n_heads for s in recording.attention.values()} == {heads}
    assert [
        c.name for s in recording.attention.values() for c in check_site(s) if not c.passed
    ] == []


@pytest.mark.parametrize(("layers", "heads", "residual"), STAGES.values(), ids=STAGES)
def test_decoding_step_by_step_gives_the_stacked_run(layers, heads, residual):
    model = random_attention_only(n_self_layers=layers, n_heads=heads, residual=residual)
    source, target = random_ids(BATCH, N_SOURCE), random_ids(BATCH, 9)
    together = model(source, target).log_softmax(-1)
    run = decoding.Incremental(model, source)
    for m in range(1, 10):
        torch.testing.assert_close(
            run.next_log_probs(target[:, :m]), together[:, m - 1], rtol=1e-4, atol=1e-5
        )


def test_with_add_and_norm_there_is_a_stream_and_it_is_what_each_attention_is_added_to():
    """LayerNorm of a stream plus what is added to it is the stream of the next attention, and after the last the logits' input."""
    model = random_attention_only(n_self_layers=2, n_heads=3, residual=True)
    source, target = random_ids(1, N_SOURCE), random_ids(1, N_TARGET)
    with record() as recording:
        logits = model(source, target)
    activations, sites = finish(
        recording, {"source": ("x",) * N_SOURCE, "target": ("y",) * N_TARGET}
    )
    stream = {name: held.value for name, held in activations.items() if ".resid_" in name}
    assert sorted(stream) == [
        "decoder.layers.0.resid_post", "decoder.layers.0.resid_pre", "decoder.layers.1.resid_post", "decoder.layers.1.resid_pre",
        "decoder.resid_mid", "decoder.resid_post", "encoder.layers.0.resid_post", "encoder.layers.0.resid_pre",
        "encoder.layers.1.resid_post", "encoder.layers.1.resid_pre",
    ]  # fmt: skip
    assert all(
        activations[name].tokens
        == ("y" if name.startswith("decoder") else "x",) * len(activations[name].tokens)
        for name in stream
    )
    embedded, position = (
        activations[f"encoder.{part}"].value for part in ("embedding", "position")
    )
    assert torch.equal(stream["encoder.layers.0.resid_pre"], embedded + position)
    for side in ("encoder", "decoder"):
        last = (
            sites["decoder.cross_attn"].memory if side == "encoder" else stream["decoder.resid_mid"]
        )
        for i, after in enumerate([stream[f"{side}.layers.1.resid_pre"], last]):
            place = f"{side}.layers.{i}"
            added = stream[f"{place}.resid_pre"] + activations[f"{place}.self_attn.attn_out"].value
            torch.testing.assert_close(getattr(model, side).layers[i]["layer_norm"](added), after)
            assert torch.equal(stream[f"{place}.resid_post"], after)
    out = model.decoder.cross["layer_norm"](
        stream["decoder.resid_mid"] + activations["decoder.cross_attn.attn_out"].value
    )
    torch.testing.assert_close(out @ model.embedding.weight.T, logits)
    assert torch.equal(stream["decoder.resid_post"], out)
    trace = object.__new__(Trace)
    vars(trace)["activations"] = activations
    for name, before in (
        ("encoder.layers.1.self_attn", "encoder.layers.1.resid_pre"),
        ("decoder.cross_attn", "decoder.resid_mid"),
    ):
        assert torch.equal(head_sum.residual(trace, sites[name]), stream[before][0])


def positions_share(x: torch.Tensor) -> float:
    """Return the share of the mean square of states (token, d_model) that differs between the tokens."""
    return float((x - x.mean(0)).square().mean() / x.square().mean())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_stack_without_add_and_norm_loses_the_positions_and_with_it_the_decoders_gradient(seed):
    """This is why dates-stacked does not learn (Dong et al. 2021): with its sizes, at the start, the decoder reads nearly the same
    vector everywhere, so that it makes no difference where it looks. Add & Norm keeps both."""
    shares, gradients = {}, {}
    for residual in (False, True):
        torch.manual_seed(seed)
        model = AttentionOnly(
            AttentionOnlyConfig(97, d_model=64, n_heads=4, n_self_layers=3, residual=residual)
        )
        source, target = torch.randint(4, 97, (1, 17)), torch.randint(4, 97, (1, 11))
        memory = model.encode(source, model.masks(source, target)).detach()
        shares[residual] = positions_share(memory[0])
        model(source, target).log_softmax(-1)[0, :, 5].mean().backward()
        gradients[residual] = float(model.decoder.layers[0]["self_attn"].W_Q.weight.grad.norm())
    assert shares[False] < 1e-3 < 0.1 < shares[True]
    assert gradients[False] < 1e-4 * gradients[True]


def test_attn_of_x_and_x_dash_alone_reads_one_token_of_the_target():
    """Without self-attention, the query is made from the previous token and its position alone."""
    model = random_attention_only(n_self_layers=0)
    source, target = random_ids(1, N_SOURCE), random_ids(1, N_TARGET)
    other = target.clone()
    other[0, :6] = random_ids(1, 6, seed=5)
    assert torch.equal(model(source, target)[:, 6:], model(source, other)[:, 6:])


def test_sizes_that_cannot_be():
    with pytest.raises(ValueError, match="n_self_layers must be at least 0"):
        AttentionOnlyConfig(VOCAB, n_self_layers=-1)
    with pytest.raises(ValueError, match="d_model"):
        random_attention_only(d_model=16, n_heads=3)
