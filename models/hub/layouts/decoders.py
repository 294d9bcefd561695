"""Layouts of decoders without an encoder."""

from dataclasses import replace

from models.hub.layer_paths import AttnPaths, FFPaths
from models.hub.layouts.entries import LayerGroups, mlp, one_stack
from models.hub.layouts.two_stacks import FC, SELF_PATHS

_ATTENTION, _AFTER_ATTENTION = AttnPaths("self_attn", "input_layernorm"), "post_attention_layernorm"
_GPT2 = AttnPaths("attn", "ln_1"), mlp("ln_2", "c_fc", "act", "c_proj")
_GATED = "gate_proj", "act_fn", "down_proj", "up_proj"
_LLAMA = _ATTENTION, mlp(_AFTER_ATTENTION, *_GATED)
_NEOX = (
    AttnPaths("attention", "input_layernorm"),
    mlp(_AFTER_ATTENTION, "dense_h_to_4h", "act", "dense_4h_to_h"),
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


def _beside(
    layers: str, attention: AttnPaths, feed_forward: FFPaths, last_norm: str
) -> LayerGroups:
    return one_stack(
        layers, (attention, replace(feed_forward, norm=attention.norm)), last_norm, parallel=True
    )


_DBRX = (
    AttnPaths("norm_attn_norm.attn", "norm_attn_norm.norm_1"),
    FFPaths("ffn", "norm_attn_norm.norm_2", "ffn"),
)
_CTRL = (
    AttnPaths("multi_head_attention", "layernorm1"),
    FFPaths("ffn", "layernorm2", "ffn", "ffn.0", "ffn.1", "ffn.2"),
)
_JETMOE = AttnPaths("self_attention", "input_layernorm"), FFPaths("mlp", _AFTER_ATTENTION, "mlp")

DECODERS: tuple[LayerGroups, ...] = (
    one_stack("h.{}", _GPT2, "ln_f"),
    one_stack("h.{}", (AttnPaths("attn.attention", "ln_1"), _GPT2[1]), "ln_f"),
    one_stack("h.{}", _GPT2, norm="post"),
    _beside("h.{}", AttnPaths("attn", "ln_1"), mlp("", "fc_in", "act", "fc_out"), "ln_f"),
    _beside("h.{}", AttnPaths("self_attention", "input_layernorm"), _NEOX[1], "ln_f"),
    one_stack("h.{}", _BLOOM, "ln_f"),
    one_stack("blocks.{}", _MPT, "norm_f"),
    one_stack("layers.{}", _LLAMA, "norm"),
    one_stack("layers.{}", _LLAMA, "norm", parallel=True),
    _beside("layers.{}", *_LLAMA, "norm"),
    _beside("layers.{}", _ATTENTION, mlp("", "fc1", "activation_fn", "fc2"), "final_layernorm"),
    one_stack(
        "layers.{}", (_ATTENTION, mlp(_AFTER_ATTENTION, "up_proj", "act_fn", "down_proj")), "norm"
    ),
    one_stack("layers.{}", (_ATTENTION, mlp(_AFTER_ATTENTION, "c_fc", "act", "c_proj")), "norm"),
    one_stack("layers.{}", (_ATTENTION, _NEOX[1]), "final_layernorm"),
    one_stack("layers.{}", _NEOX, "final_layer_norm", parallel=True),
    one_stack("layers.{}", _NEOX, "final_layer_norm"),
    one_stack("layers.{}", (SELF_PATHS, FC), "layer_norm"),
    one_stack(
        "layers.{}",
        (AttnPaths("self_attn", _AFTER_ATTENTION), mlp("post_mlp_layernorm", *_GATED)),
        norm="post",
    ),
    one_stack(
        "layers.{}",
        (
            AttnPaths("self_attn", _AFTER_ATTENTION),
            mlp("post_mlp_layernorm", "fc1", "activation_fn", "fc2"),
        ),
        norm="post",
    ),
    one_stack(
        "decoder.layers.{}",
        (SELF_PATHS, FC),
        "decoder.final_layer_norm",
        last_product="decoder.project_out",
    ),
    one_stack(
        "decoder.layers.{}", (SELF_PATHS, FC), norm="post", last_product="decoder.project_out"
    ),
    one_stack("decoder.layers.{}", (SELF_PATHS, FC), "decoder.final_layer_norm"),
    one_stack("decoder.layers.{}", (SELF_PATHS, FC), norm="post"),
)
# The inside of the feed-forward is not described, as in a mixture of experts.
OPEN_DECODERS: tuple[LayerGroups, ...] = (
    one_stack("layers.{}", (_ATTENTION, FFPaths("mlp", _AFTER_ATTENTION, "mlp")), "norm"),
    one_stack(
        "layers.{}", (_ATTENTION, FFPaths("mlp", "pre_feedforward_layernorm", "mlp")), "norm"
    ),
    one_stack(
        "layers.{}",
        (
            AttnPaths("self_attn", "attention_layernorm"),
            FFPaths("mlp", "feedforward_layernorm", "mlp"),
        ),
        "norm",
    ),
    one_stack(
        "layers.{}",
        (_ATTENTION, FFPaths("block_sparse_moe", _AFTER_ATTENTION, "block_sparse_moe")),
        "norm",
    ),
    one_stack(
        "layers.{}", (_ATTENTION, FFPaths("feed_forward", _AFTER_ATTENTION, "feed_forward")), "norm"
    ),
    _beside("layers.{}", _ATTENTION, FFPaths("mlp", "", "mlp"), "norm"),
    one_stack("blocks.{}", _DBRX, "norm_f"),
    one_stack("h.{}", _CTRL, "layernorm"),
    one_stack("layers.{}", _JETMOE, "norm"),
)
