"""Layouts of one encoder, of text, images or sounds."""

from dataclasses import replace

from models.hub.layer_paths import AttnPaths, FFPaths
from models.hub.layouts.entries import LayerGroups, mlp, one_stack

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
_MEGATRON = (
    AttnPaths("attention.self", "attention.ln"),
    FFPaths(
        "", "ln", "output.dense", "intermediate.dense", "intermediate.intermediate_act_fn", "output.dense",
    ),
)  # fmt: skip
_ROBERTA_XL = (
    AttnPaths("attention.self", "attention.self_attn_layer_norm"),
    replace(_MEGATRON[1], norm="LayerNorm"),
)
_ESM = (
    AttnPaths("attention.self", "attention.LayerNorm"),
    FFPaths("", "LayerNorm", "output.dense"),
)
_CLIP = AttnPaths("self_attn", "layer_norm1"), mlp("layer_norm2", "fc1", "activation_fn", "fc2")
_VIT = (
    AttnPaths("attention", "layernorm_before"),
    mlp("layernorm_after", "fc1", "activation_fn", "fc2"),
)
_WAV2VEC2 = (
    AttnPaths("attention", "layer_norm"),
    FFPaths(
        "feed_forward", "final_layer_norm", "feed_forward",
        "feed_forward.intermediate_dense", "feed_forward.intermediate_act_fn", "feed_forward.output_dense",
    ),
)  # fmt: skip
_MODERN_BERT = AttnPaths("attn", "attn_norm"), FFPaths("mlp", "mlp_norm", "mlp")

ENCODERS: tuple[LayerGroups, ...] = (
    one_stack("encoder.layer.{}", _BERT, norm="post"),
    one_stack("encoder.layer.{}", _BERT_BEFORE),
    one_stack("encoder.layer.{}", _MEGATRON, "encoder.ln"),
    one_stack("encoder.layer.{}", _ROBERTA_XL, "encoder.LayerNorm"),
    one_stack("encoder.layer.{}", _ESM, "encoder.emb_layer_norm_after"),
    one_stack(
        "encoder.layer.{}",
        (AttnPaths("attention.attn", "attention.LayerNorm"), _BERT[1]),
        norm="post",
    ),
    one_stack("transformer.layer.{}", _DISTILBERT, norm="post"),
    one_stack("encoder.layers.{}", _CLIP, "final_layer_norm"),
    one_stack("encoder.layers.{}", _CLIP),
    one_stack("layers.{}", _VIT, "layernorm"),
    one_stack("encoder.layers.{}", _VIT, "layernorm"),
    one_stack("layers.{}", _MODERN_BERT, "final_norm"),
    one_stack("encoder.layers.{}", _WAV2VEC2, norm="post"),
    one_stack("encoder.layers.{}", _WAV2VEC2, "encoder.layer_norm"),
)
