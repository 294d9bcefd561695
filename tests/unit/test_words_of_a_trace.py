"""The description of each intermediate in a recording: its name, axes and formula, architecture by architecture."""

import pytest
import torch
from small import (
    N_SOURCE,
    N_TARGET,
    padded_ids,
    random_attention_only,
    random_model,
    random_seq2seq,
)

from models.trace import Recording, record

EMBEDDING, LOGITS = "embedding(token)·√d_model", "decoder output · embeddingᵀ"
POST, PRE = "LayerNorm(x + Sublayer(x))", "x + Sublayer(LayerNorm(x))"
BEFORE, HEADS = "residual stream before self-attention", "Concat(head_out)·W_O"
FF = [
    ("ff.ff_pre", "d_ff", "x·W₁ + b₁"),
    ("ff.ff_post", "d_ff", "max(0, ff_pre)"),
    ("ff.ff_out", "d_model", "ff_post·W₂ + b₂"),
]


def recorded(model) -> Recording:
    with record() as recording, torch.no_grad():
        model(*padded_ids())
    return recording


def said(recording: Recording) -> list[tuple[str, str, str, str]]:
    """Return (name, stream, feature, formula) in the order of the pass."""
    assert all(a.name == name and a.axes[0] == "batch" for name, a in recording.activations.items())
    return [(a.name, a.axes[1], a.axes[2], a.formula) for a in recording.activations.values()]


@pytest.mark.parametrize(("norm", "add_norm"), [("post", POST), ("pre", PRE)])
def test_a_transformer(norm, add_norm):
    def layer(path: str, stream: str, *parts: tuple[str, str, str]):
        return [(f"{path}.{name}", stream, feature, formula) for name, feature, formula in parts]

    def normed(n: int) -> list[tuple[str, str, str]]:
        return [(f"add_norm_{n}.normed", "d_model", "LayerNorm(x)")] * (norm == "pre")

    own = [
        ("resid_pre", "d_model", BEFORE),
        *normed(1),
        ("self_attn.attn_out", "d_model", HEADS),
        ("resid_mid", "d_model", add_norm),
    ]
    cross = [
        *normed(2),
        ("cross_attn.attn_out", "d_model", HEADS),
        ("resid_mid_cross", "d_model", add_norm),
    ]
    encoder = [*own, *normed(2), *FF, ("resid_post", "d_model", add_norm)]
    decoder = [*own, *cross, *normed(3), *FF, ("resid_post", "d_model", add_norm)]
    recording = recorded(random_model(norm=norm))
    assert said(recording) == [
        ("encoder.embedding", "source", "d_model", EMBEDDING),
        ("encoder.position", "source", "d_model", "sinusoidal position vectors"),
        *layer("encoder.layers.0", "source", *encoder),
        ("decoder.embedding", "target", "d_model", EMBEDDING),
        ("decoder.position", "target", "d_model", "sinusoidal position vectors"),
        *layer("decoder.layers.0", "target", *decoder),
        *layer("decoder.layers.1", "target", *decoder),
        ("logits", "target", "vocab", LOGITS),
    ]
    sites = {name: (s.kind, s.layer, s.n_query, s.n_key) for name, s in recording.attention.items()}
    assert sites == {
        "encoder.layers.0.self_attn": ("encoder_self", 0, N_SOURCE, N_SOURCE),
        "decoder.layers.0.self_attn": ("decoder_self", 0, N_TARGET, N_TARGET),
        "decoder.layers.0.cross_attn": ("cross", 0, N_TARGET, N_SOURCE),
        "decoder.layers.1.self_attn": ("decoder_self", 1, N_TARGET, N_TARGET),
        "decoder.layers.1.cross_attn": ("cross", 1, N_TARGET, N_SOURCE),
    }


def test_attention_alone():
    recording = recorded(random_attention_only(n_self_layers=1, positions="learned"))
    assert said(recording) == [
        ("encoder.embedding", "source", "d_model", EMBEDDING),
        ("encoder.position", "source", "d_model", "learned position vectors"),
        ("encoder.layers.0.self_attn.attn_out", "source", "d_model", HEADS),
        ("decoder.embedding", "target", "d_model", EMBEDDING),
        ("decoder.position", "target", "d_model", "learned position vectors"),
        ("decoder.layers.0.self_attn.attn_out", "target", "d_model", HEADS),
        ("decoder.cross_attn.attn_out", "target", "d_model", HEADS),
        ("logits", "target", "vocab", "Attn(X, X') · embeddingᵀ"),
    ]
    assert recording.attention["decoder.cross_attn"].layer == 0


def test_attention_with_residual_connections():
    """The stream before each attention is recorded and described, if there is one."""
    after = "LayerNorm(x + Attn(x, ·))"
    streams = [
        mark
        for mark in said(recorded(random_attention_only(n_self_layers=1, residual=True)))
        if "resid" in mark[0]
    ]
    assert streams == [
        ("encoder.layers.0.resid_pre", "source", "d_model", BEFORE),
        ("encoder.layers.0.resid_post", "source", "d_model", after),
        ("decoder.layers.0.resid_pre", "target", "d_model", BEFORE),
        ("decoder.layers.0.resid_post", "target", "d_model", after),
        ("decoder.resid_mid", "target", "d_model", "residual stream before cross-attention"),
        ("decoder.resid_post", "target", "d_model", after),
    ]


@pytest.mark.parametrize(
    ("cell", "formula"), [("gru", "(1 − z)∘n + z∘h_{t−1}"), ("tanh", "tanh(W x_t + U h_{t−1} + b)")]
)
@pytest.mark.parametrize("attention", ["bahdanau", "none"])
def test_a_recurrent_model(cell, formula, attention):
    recording = recorded(random_seq2seq(cell=cell, attention=attention))
    contexts = (
        [("decoder.contexts", "target", "d_memory", "c_i = Σ_j α_ij h_j")]
        if attention == "bahdanau"
        else []
    )
    assert said(recording) == [
        ("encoder.embedding", "source", "d_model", EMBEDDING),
        ("encoder.states", "source", "d_memory", f"h_t = {formula}, in each direction"),
        ("decoder.embedding", "target", "d_model", EMBEDDING),
        *contexts,
        ("decoder.states", "target", "d_hidden", f"s_i = {formula} of s_{{i−1}}"),
        (
            "decoder.readout",
            "target",
            "d_model",
            f"tanh(W_r [s_i; y_{{i−1}}{'; c_i' if contexts else ''}] + b)",
        ),
        ("logits", "target", "vocab", "readout · embeddingᵀ"),
    ]
    for site in recording.attention.values():
        assert (site.name, site.kind, site.layer, site.n_heads, site.projections) == (
            "decoder.alignment",
            "cross",
            0,
            1,
            {},
        )
