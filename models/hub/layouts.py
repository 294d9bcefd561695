"""Layouts of layers in third-party models, whatever the model is called.

Every layout is tried on every model; a short run decides whether it is the model's (probe.py). A
new layout is a line of LAYOUTS.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import nn

from models.hub.layer_map import AttnPaths, FFPaths, LayerGroup, LayerMap


def _mlp(norm: str, first: str, function: str, second: str, other: str = "") -> FFPaths:
    inside = f"mlp.{first}", f"mlp.{function}", f"mlp.{second}"
    return FFPaths("mlp", norm, "mlp", *inside, f"mlp.{other}" if other else "")


_ATTENTION, _AFTER_ATTENTION = AttnPaths("self_attn", "input_layernorm"), "post_attention_layernorm"
_SELF, _CROSS = (
    AttnPaths("self_attn", "self_attn_layer_norm"),
    AttnPaths("encoder_attn", "encoder_attn_layer_norm"),
)
_FC = FFPaths("", "final_layer_norm", "fc2", "fc1", "activation_fn", "fc2")
_GPT2 = AttnPaths("attn", "ln_1"), _mlp("ln_2", "c_fc", "act", "c_proj")
_GATED = "gate_proj", "act_fn", "down_proj", "up_proj"
_LLAMA = _ATTENTION, _mlp(_AFTER_ATTENTION, *_GATED)
_NEOX = (
    AttnPaths("attention", "input_layernorm"),
    _mlp(_AFTER_ATTENTION, "dense_h_to_4h", "act", "dense_4h_to_h"),
)
_BERT = (
    AttnPaths("attention.self", "attention.output.LayerNorm"),
    FFPaths(
        "", "output.LayerNorm", "output.dense",
        "intermediate.dense", "intermediate.intermediate_act_fn", "output.dense",
    ),
)  # fmt: skip
_BERT_BEFORE = (
    AttnPaths("attention.self", "attention.LayerNorm"),
    FFPaths(
        "", "intermediate.LayerNorm", "output.dense",
        "intermediate.dense", "intermediate.intermediate_act_fn", "output.dense",
    ),
)  # fmt: skip
_DISTILBERT = (
    AttnPaths("attention", "sa_layer_norm"),
    FFPaths("ffn", "output_layer_norm", "ffn", "ffn.lin1", "ffn.activation", "ffn.lin2"),
)
_CLIP = AttnPaths("self_attn", "layer_norm1"), _mlp("layer_norm2", "fc1", "activation_fn", "fc2")
_VIT = (
    AttnPaths("attention", "layernorm_before"),
    _mlp("layernorm_after", "fc1", "activation_fn", "fc2"),
)
_MPT = (
    AttnPaths("attn", "norm_1"),
    FFPaths("ffn", "norm_2", "ffn.down_proj", "ffn.up_proj", "ffn.act", "ffn.down_proj"),
)
_BLOOM = (
    AttnPaths("self_attention", "input_layernorm"),
    FFPaths(
        "mlp", _AFTER_ATTENTION, "mlp.dense_4h_to_h", "mlp.dense_h_to_4h", "mlp.gelu_impl", "mlp.dense_4h_to_h",
    ),
)  # fmt: skip


def _t5(first: str, other: str = "") -> tuple[LayerGroup, ...]:
    def feed_forward(path: str) -> FFPaths:
        inner = f"{path}.DenseReluDense"
        inside = f"{inner}.{first}", f"{inner}.act", f"{inner}.wo"
        return FFPaths(
            inner, f"{path}.layer_norm", inner, *inside, f"{inner}.{other}" if other else ""
        )

    self_attention = AttnPaths("layer.0.SelfAttention", "layer.0.layer_norm")
    cross = AttnPaths("layer.1.EncDecAttention", "layer.1.layer_norm")
    encoder, decoder = (
        (self_attention, feed_forward("layer.1")),
        (self_attention, cross, feed_forward("layer.2")),
    )
    return (
        LayerGroup("encoder.block.{}", encoder, last_norm="encoder.final_layer_norm"),
        LayerGroup("decoder.block.{}", decoder, last_norm="decoder.final_layer_norm"),
    )


def _two(norm: str, last_norm: str = "") -> tuple[LayerGroup, ...]:
    return (
        LayerGroup("encoder.layers.{}", (_SELF, _FC), norm, last_norm and f"encoder.{last_norm}"),
        LayerGroup(
            "decoder.layers.{}", (_SELF, _CROSS, _FC), norm, last_norm and f"decoder.{last_norm}"
        ),
    )


def _one(
    layers: str, parts: tuple[AttnPaths | FFPaths, ...], last_norm: str = "", **how: Any
) -> tuple[LayerGroup]:
    return (LayerGroup(layers, parts, last_norm=last_norm, **how),)


def _beside(
    layers: str, attention: AttnPaths, feed_forward: FFPaths, last_norm: str
) -> tuple[LayerGroup]:
    return _one(
        layers, (attention, replace(feed_forward, norm=attention.norm)), last_norm, parallel=True
    )


# Each is tried in this order. The last ones leave open what is inside the feed-forward.
LAYOUTS: tuple[tuple[LayerGroup, ...], ...] = (
    _one("h.{}", _GPT2, "ln_f"),
    _one("h.{}", (AttnPaths("attn.attention", "ln_1"), _GPT2[1]), "ln_f"),
    _one("h.{}", _GPT2, norm="post"),
    _beside("h.{}", AttnPaths("attn", "ln_1"), _mlp("", "fc_in", "act", "fc_out"), "ln_f"),
    _beside("h.{}", AttnPaths("self_attention", "input_layernorm"), _NEOX[1], "ln_f"),
    _one("h.{}", _BLOOM, "ln_f"),
    _one("blocks.{}", _MPT, "norm_f"),
    _one("layers.{}", _LLAMA, "norm"),
    _one("layers.{}", _LLAMA, "norm", parallel=True),
    _beside("layers.{}", *_LLAMA, "norm"),
    _beside("layers.{}", _ATTENTION, _mlp("", "fc1", "activation_fn", "fc2"), "final_layernorm"),
    _one(
        "layers.{}", (_ATTENTION, _mlp(_AFTER_ATTENTION, "up_proj", "act_fn", "down_proj")), "norm"
    ),
    _one("layers.{}", (_ATTENTION, _mlp(_AFTER_ATTENTION, "c_fc", "act", "c_proj")), "norm"),
    _one("layers.{}", (_ATTENTION, _NEOX[1]), "final_layernorm"),
    _one("layers.{}", _NEOX, "final_layer_norm", parallel=True),
    _one("layers.{}", _NEOX, "final_layer_norm"),
    _one("layers.{}", (_SELF, _FC), "layer_norm"),
    _one(
        "layers.{}",
        (AttnPaths("self_attn", _AFTER_ATTENTION), _mlp("post_mlp_layernorm", *_GATED)),
        norm="post",
    ),
    _one(
        "layers.{}",
        (
            AttnPaths("self_attn", _AFTER_ATTENTION),
            _mlp("post_mlp_layernorm", "fc1", "activation_fn", "fc2"),
        ),
        norm="post",
    ),
    _one(
        "decoder.layers.{}",
        (_SELF, _FC),
        "decoder.final_layer_norm",
        last_product="decoder.project_out",
    ),
    _one("decoder.layers.{}", (_SELF, _FC), norm="post", last_product="decoder.project_out"),
    _one("decoder.layers.{}", (_SELF, _FC), "decoder.final_layer_norm"),
    _one("decoder.layers.{}", (_SELF, _FC), norm="post"),
    _one("encoder.layer.{}", _BERT, norm="post"),
    _one("encoder.layer.{}", _BERT_BEFORE),
    _one("transformer.layer.{}", _DISTILBERT, norm="post"),
    _one("encoder.layers.{}", _CLIP, "final_layer_norm"),
    _one("encoder.layers.{}", _CLIP),
    _one("layers.{}", _VIT, "layernorm"),
    _one("encoder.layers.{}", _VIT, "layernorm"),
    _two("post"),
    _two("pre", "layer_norm"),
    _t5("wi"),
    _t5("wi_0", "wi_1"),
    _one("layers.{}", (_ATTENTION, FFPaths("mlp", _AFTER_ATTENTION, "mlp")), "norm"),
    _one("layers.{}", (_ATTENTION, FFPaths("mlp", "pre_feedforward_layernorm", "mlp")), "norm"),
    _one(
        "layers.{}",
        (
            AttnPaths("self_attn", "attention_layernorm"),
            FFPaths("mlp", "feedforward_layernorm", "mlp"),
        ),
        "norm",
    ),
    _one(
        "layers.{}",
        (_ATTENTION, FFPaths("block_sparse_moe", _AFTER_ATTENTION, "block_sparse_moe")),
        "norm",
    ),
    _one(
        "layers.{}", (_ATTENTION, FFPaths("feed_forward", _AFTER_ATTENTION, "feed_forward")), "norm"
    ),
    _beside("layers.{}", _ATTENTION, FFPaths("mlp", "", "mlp"), "norm"),
)


def layer_maps(module: nn.Module) -> list[LayerMap]:
    """Return the layouts whose modules this model has, below any path."""
    paths = [path for path, _ in module.named_modules()]
    found = []
    for layout in LAYOUTS:
        first = layout[0].layers.format(0)
        for path in paths:
            if f".{path}".endswith(f".{first}"):
                above = path.removesuffix(first)
                found.append(LayerMap(module, [_below(above, stack) for stack in layout]))
    return [layer_map for layer_map in found if layer_map.parts]


def rotary_paths(module: nn.Module) -> list[str]:
    """Return the paths of modules that may make cos and sin of rotary positions."""
    return [path for path, _ in module.named_modules() if path.rpartition(".")[2] == "rotary_emb"]


def _below(above: str, stack: LayerGroup) -> LayerGroup:
    paths = {
        name: f"{above}{path}"
        for name in ("layers", "last_norm", "last_product")
        if (path := getattr(stack, name))
    }
    return replace(stack, **paths)
