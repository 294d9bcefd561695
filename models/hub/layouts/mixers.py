"""Layouts of layers of two kinds: attention, or another way of mixing tokens."""

from models.hub.layer_paths import AttnPaths, FFPaths, LayerGroup, MixerPaths
from models.hub.layouts.entries import LayerGroups

_GATED = ("mlp.gate_proj", "mlp.act_fn", "mlp.down_proj", "mlp.up_proj")
_AFTER = "post_attention_layernorm"
_MLP = FFPaths("mlp", _AFTER, "mlp")
_FEED_FORWARD = FFPaths("feed_forward", "pre_ff_layernorm", "feed_forward")
_ATTENTION = AttnPaths("self_attn", "input_layernorm")
_LINEAR, _MAMBA = (MixerPaths(path, "input_layernorm") for path in ("linear_attn", "mamba"))
_LFM = FFPaths("feed_forward", "ffn_norm", "feed_forward")
_LFM_3 = FFPaths("feed_forward", "ffn_norm", "feed_forward", out_norm="post_ffn_norm")
_OLMO = FFPaths("mlp", "", "mlp", *_GATED, out_norm="post_feedforward_layernorm")
_SPARSE = FFPaths("block_sparse_moe", _AFTER, "block_sparse_moe")
_SHARED = FFPaths("shared_mlp", _AFTER, "shared_mlp", beside=True)
_SHARED_ALONE = FFPaths("shared_mlp", _AFTER, "shared_mlp")
# parts of a layer with attention, parts of other layers, path of the last norm
_LAYERS = (
    ((_ATTENTION, FFPaths("mlp", _AFTER, "mlp", *_GATED)), ((_LINEAR, FFPaths("mlp", _AFTER, "mlp", *_GATED)),), "norm"),
    ((_ATTENTION, _MLP), ((_LINEAR, _MLP),), "norm"),
    ((_ATTENTION, _FEED_FORWARD), ((_MAMBA, _FEED_FORWARD),), "final_layernorm"),
    ((_ATTENTION, _SPARSE, _SHARED), ((_MAMBA, _SPARSE, _SHARED),), "norm"),
    ((_ATTENTION, _SHARED_ALONE), ((_MAMBA, _SHARED_ALONE),), "norm"),
    (
        (AttnPaths("self_attn", "", _AFTER), _OLMO),
        ((_LINEAR, FFPaths("mlp", _AFTER, "mlp", *_GATED)),),
        "norm",
    ),
    (
        (AttnPaths("self_attn", "operator_norm"), _LFM),
        ((MixerPaths("conv", "operator_norm"), _LFM),),
        "embedding_norm",
    ),
    (
        (AttnPaths("self_attn", "operator_norm", "post_operator_norm"), _LFM_3),
        ((MixerPaths("conv", "operator_norm", "post_operator_norm"), _LFM_3),),
        "embedding_norm",
    ),
)  # fmt: skip
MIXERS: tuple[LayerGroups, ...] = tuple(
    (LayerGroup("layers.{}", parts, last_norm=last_norm, alternatives=others),)
    for parts, others, last_norm in _LAYERS
)
