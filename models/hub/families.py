"""Families with known residual stream, feed-forward and rotary positions, by module path.

See layer_map.py and positions.py. A new family is a line of FAMILIES and perhaps one of ROTARY;
nothing else in models/ knows a family.
"""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from models.hub.layer_map import AttnPaths, FFPaths, LayerGroup, LayerMap

_GPT2 = (LayerGroup(
    "transformer.h.{}", (AttnPaths("attn", "ln_1"), FFPaths("mlp", "ln_2", "mlp.c_fc", "mlp.act", "mlp.c_proj", "mlp")),
    last_norm="transformer.ln_f",
),)  # fmt: skip
_LLAMA = (
    LayerGroup(
        "model.layers.{}",
        (
            AttnPaths("self_attn", "input_layernorm"),
            FFPaths(
                "mlp",
                "post_attention_layernorm",
                "mlp.gate_proj",
                "mlp.act_fn",
                "mlp.down_proj",
                "mlp",
                "mlp.up_proj",
            ),
        ),
        last_norm="model.norm",
    ),
)
_NEOX = (
    LayerGroup(
        "gpt_neox.layers.{}",
        (
            AttnPaths("attention", "input_layernorm"),
            FFPaths(
                "mlp",
                "post_attention_layernorm",
                "mlp.dense_h_to_4h",
                "mlp.act",
                "mlp.dense_4h_to_h",
                "mlp",
            ),
        ),
        last_norm="gpt_neox.final_layer_norm",
    ),
)
_SELF, _CROSS = (
    AttnPaths("self_attn", "self_attn_layer_norm"),
    AttnPaths("encoder_attn", "encoder_attn_layer_norm"),
)
_FC = FFPaths("", "final_layer_norm", "fc1", "activation_fn", "fc2", "fc2")
_OPT = (
    LayerGroup("model.decoder.layers.{}", (_SELF, _FC), last_norm="model.decoder.final_layer_norm"),
    LayerGroup("model.decoder.layers.{}", (_SELF, _FC), "post"),
)
_BART = (
    LayerGroup("model.encoder.layers.{}", (_SELF, _FC), "post"),
    LayerGroup("model.decoder.layers.{}", (_SELF, _CROSS, _FC), "post"),
)


def _bert(name: str) -> tuple[LayerGroup, ...]:
    return (LayerGroup(f"{name}.encoder.layer.{{}}", (
        AttnPaths("attention.self", "attention.output.LayerNorm"),
        FFPaths(
            "", "output.LayerNorm", "intermediate.dense", "intermediate.intermediate_act_fn", "output.dense", "output.dense",
        ),
    ), "post"),)  # fmt: skip


_DISTILBERT = (
    LayerGroup(
        "distilbert.transformer.layer.{}",
        (
            AttnPaths("attention", "sa_layer_norm"),
            FFPaths("ffn", "output_layer_norm", "ffn.lin1", "ffn.activation", "ffn.lin2", "ffn"),
        ),
        "post",
    ),
)


def _vit(name: str) -> tuple[LayerGroup, ...]:
    return (LayerGroup(
        f"{name}.layers.{{}}",
        (
            AttnPaths("attention", "layernorm_before"),
            FFPaths("mlp", "layernorm_after", "mlp.fc1", "mlp.activation_fn", "mlp.fc2", "mlp"),
        ),
        last_norm=f"{name}.layernorm",
    ),)  # fmt: skip


_CLIP_VISION = (LayerGroup(
    "vision_model.encoder.layers.{}",
    (
        AttnPaths("self_attn", "layer_norm1"),
        FFPaths("mlp", "layer_norm2", "mlp.fc1", "mlp.activation_fn", "mlp.fc2", "mlp"),
    ),
),)  # fmt: skip


def _t5(first: str, other: str = "") -> tuple[LayerGroup, ...]:
    def feed_forward(path: str) -> FFPaths:
        inner = f"{path}.DenseReluDense"
        return FFPaths(
            inner,
            f"{path}.layer_norm",
            f"{inner}.{first}",
            f"{inner}.act",
            f"{inner}.wo",
            inner,
            f"{inner}.{other}" if other else "",
        )

    self_attention = AttnPaths("layer.0.SelfAttention", "layer.0.layer_norm")
    cross = AttnPaths("layer.1.EncDecAttention", "layer.1.layer_norm")
    return (
        LayerGroup(
            "encoder.block.{}",
            (self_attention, feed_forward("layer.1")),
            last_norm="encoder.final_layer_norm",
        ),
        LayerGroup(
            "decoder.block.{}",
            (self_attention, cross, feed_forward("layer.2")),
            last_norm="decoder.final_layer_norm",
        ),
    )


# model_type → possible layouts; the first whose modules are there and that a run confirms counts
FAMILIES: dict[str, tuple[tuple[LayerGroup, ...], ...]] = {
    "gpt2": (_GPT2,),
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3"), (_LLAMA,)),
    "gpt_neox": ((replace(_NEOX[0], parallel=True),), _NEOX),
    "opt": (
        *((replace(stack, last_product="model.decoder.project_out"),) for stack in _OPT),
        *((stack,) for stack in _OPT),
    ),
    **{name: (_bert(name),) for name in ("bert", "roberta", "electra")},
    **dict.fromkeys(("camembert", "xlm-roberta"), (_bert("roberta"),)),
    "distilbert": (_DISTILBERT,),
    **dict.fromkeys(("bart", "marian"), (_BART,)),
    **{name: (_vit(name),) for name in ("vit", "deit", "ijepa")},
    "vit_msn": (_vit("vit"),),
    **dict.fromkeys(("clip", "siglip"), (_CLIP_VISION,)),
    "clip_vision_model": ((replace(_CLIP_VISION[0], layers="encoder.layers.{}"),),),
    "t5": (_t5("wi"), _t5("wi_0", "wi_1")),
}

# model_type → the module that makes cos and sin of its rotary positions
ROTARY = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3"), "model.rotary_emb"),
    "gpt_neox": "gpt_neox.rotary_emb",
}


def rotary_paths(kind: str) -> list[str]:
    """Return the possible paths of the rotary module in this kind of model; none if not known."""
    return [
        path
        for whole in filter(None, [ROTARY.get(kind)])
        for path in (whole, whole.partition(".")[2])
    ]


def layer_maps(kind: str, module: nn.Module) -> list[LayerMap]:
    """Return the possible layouts of this kind of model.

    There are none for a kind that is not known, or if the modules are not at the paths of its
    family.
    """
    candidates = [
        LayerMap(module, stacks)
        for family in FAMILIES.get(kind, ())
        for stacks in (family, tuple(map(_without_head, family)))
    ]
    return [layer_map for layer_map in candidates if layer_map.parts]


def _without_head(stack: LayerGroup) -> LayerGroup:
    """Return a stack for a model without a head, whose module paths lack the first name."""
    return replace(
        stack,
        layers=stack.layers.partition(".")[2],
        last_norm=stack.last_norm.partition(".")[2],
        last_product=stack.last_product.partition(".")[2],
    )
