"""Layouts of layers with a norm between a sublayer and the sum.

x + norm(sublayer(norm(x))) in Gemma 2 and GLM-4, x + norm(sublayer(x)) in OLMo 2.
"""

from dataclasses import replace

from models.hub.layer_paths import AttnPaths, FFPaths, LayerGroup
from models.hub.layouts.entries import LayerGroups

# the norms of attention and feed-forward, each before it ("" for none) and after it
_NORMS = (
    ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"),
    ("input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm"),
    ("input_layernorm", "post_attention_layernorm", "pre_mlp_layernorm", "post_mlp_layernorm"),
    ("input_layernorm", "post_norm1", "post_attention_layernorm", "post_norm2"),
    ("", "post_attention_layernorm", "", "post_feedforward_layernorm"),
)  # fmt: skip
_GATED = FFPaths("mlp", "", "mlp", "mlp.gate_proj", "mlp.act_fn", "mlp.down_proj", "mlp.up_proj")
_UNKNOWN = FFPaths("mlp", "", "mlp")


def _both(norms: tuple[str, str, str, str], feed_forward: FFPaths) -> tuple[AttnPaths, FFPaths]:
    before, after, before_feed_forward, after_feed_forward = norms
    return (
        AttnPaths("self_attn", before, after),
        replace(feed_forward, norm=before_feed_forward, out_norm=after_feed_forward),
    )


def _t5_gemma() -> LayerGroups:
    def attention(path: str, name: str) -> AttnPaths:
        return AttnPaths(path, f"pre_{name}_layernorm", f"post_{name}_layernorm")

    feed_forward = _both(_NORMS[0], _GATED)[1]
    self_attention, cross_attention = (
        attention("self_attn", "self_attn"),
        attention("cross_attn", "cross_attn"),
    )
    return (
        LayerGroup("encoder.layers.{}", (self_attention, feed_forward), last_norm="encoder.norm"),
        LayerGroup(
            "decoder.layers.{}",
            (self_attention, cross_attention, feed_forward),
            last_norm="decoder.norm",
        ),
    )


OUTPUT_NORMS: tuple[LayerGroups, ...] = (
    *(
        (LayerGroup("layers.{}", _both(norms, feed_forward), last_norm="norm"),)
        for feed_forward in (_GATED, _UNKNOWN)
        for norms in _NORMS
    ),
    _t5_gemma(),
)
