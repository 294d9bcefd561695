"""Layouts of an encoder and a decoder that reads it."""

from models.hub.layer_paths import AttnPaths, FFPaths, LayerGroup
from models.hub.layouts.entries import LayerGroups, mlp

SELF_PATHS, _CROSS = (
    AttnPaths("self_attn", "self_attn_layer_norm"),
    AttnPaths("encoder_attn", "encoder_attn_layer_norm"),
)
FC = FFPaths("", "final_layer_norm", "fc2", "fc1", "activation_fn", "fc2")


def _t5(first: str, other: str = "") -> LayerGroups:
    def feed_forward(path: str) -> FFPaths:
        inner = f"{path}.DenseReluDense" if first else f"{path}.mlp"
        if not first:  # a mixture of experts in some layers (Switch Transformers)
            return FFPaths(inner, f"{path}.layer_norm", inner)
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


def _two(norm: str, last_norm: str = "") -> LayerGroups:
    return (
        LayerGroup(
            "encoder.layers.{}", (SELF_PATHS, FC), norm, last_norm and f"encoder.{last_norm}"
        ),
        LayerGroup(
            "decoder.layers.{}",
            (SELF_PATHS, _CROSS, FC),
            norm,
            last_norm and f"decoder.{last_norm}",
        ),
    )


def _two_of(feed_forward: str, norm: str, above: str) -> LayerGroups:
    """Return an encoder and a decoder with this feed-forward and norm, below the path `above`."""
    parts = (
        AttnPaths("self_attn", "self_attn_layer_norm"),
        AttnPaths("cross_attention", "cross_attention_layer_norm"),
        FFPaths(feed_forward, norm, feed_forward),
    )
    return (
        LayerGroup(
            f"{above}encoder.layers.{{}}", parts[::2], last_norm=f"{above}encoder.layer_norm"
        ),
        LayerGroup(f"{above}decoder.layers.{{}}", parts, last_norm=f"{above}decoder.layer_norm"),
    )


def _moonshine() -> LayerGroups:
    attention, after = AttnPaths("self_attn", "input_layernorm"), "post_attention_layernorm"
    inside = mlp(after, "fc1", "activation_fn", "fc2")
    parts = attention, AttnPaths("encoder_attn", after), FFPaths("mlp", "final_layernorm", "mlp")
    return (
        LayerGroup("encoder.layers.{}", (attention, inside), last_norm="encoder.layer_norm"),
        LayerGroup("decoder.layers.{}", parts, last_norm="decoder.norm"),
    )


def _speech_t5() -> LayerGroups:
    feed_forward = FFPaths(
        "feed_forward", "final_layer_norm", "feed_forward",
        "feed_forward.intermediate_dense", "feed_forward.intermediate_act_fn", "feed_forward.output_dense",
    )  # fmt: skip
    encoder = AttnPaths("attention", "layer_norm"), feed_forward
    return (
        LayerGroup("encoder.wrapped_encoder.layers.{}", encoder, "post"),
        LayerGroup("decoder.wrapped_decoder.layers.{}", (SELF_PATHS, _CROSS, feed_forward), "post"),
    )


TWO_STACKS: tuple[LayerGroups, ...] = (
    _two("post"),
    _two("pre", "layer_norm"),
    _two("pre", "layernorm_embedding"),
    _t5("wi"),
    _t5("wi_0", "wi_1"),
    _t5(""),
    _two_of("ffn", "ff_layer_norm", ""),
    _two_of("ffn", "ffn_layer_norm", "text_"),
    _moonshine(),
    _speech_t5(),
)
