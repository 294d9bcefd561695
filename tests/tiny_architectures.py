"""A small random model of any kind that transformers knows, saved to a folder with a tokenizer as a user would save it."""

from pathlib import Path
from typing import Any

import torch
import transformers
from hub_models import library_tokenizer
from transformers import CONFIG_MAPPING
from transformers.models.auto import modeling_auto

VOCABULARY, WIDTH, HEADS, LAYERS, PLACES = 97, 32, 4, 2, 64
LARGEST = 2_000_000  # numbers of a model, so that no forgotten size fills the memory
_TABLES = (
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_MAPPING_NAMES",
)
# what configurations call their sizes → the small one
_NAMES: dict[int, str] = {
    VOCABULARY: "vocab_size src_vocab_size tgt_vocab_size vocab_size_per_layer_input",
    WIDTH: "hidden_size d_model n_embd dim word_embed_proj_dim embedding_size emb_dim",
    LAYERS: "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_decoder_layers "
    "num_encoder_layers num_key_value_heads num_experts_per_tok moe_k moe_topk linear_num_value_heads "
    "linear_num_key_heads",
    HEADS: "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads "
    "num_encoder_attention_heads num_decoder_attention_heads num_experts num_local_experts n_routed_experts "
    "moe_num_experts",
    WIDTH // HEADS: "head_dim d_kv attention_head_size qk_nope_head_dim qk_rope_head_dim v_head_dim lora_rank "
    "linear_key_head_dim linear_value_head_dim",
    40: "intermediate_size ffn_dim d_ff dff n_inner d_inner hidden_dim encoder_ffn_dim decoder_ffn_dim "
    "ffn_hidden_size dim_ff moe_intermediate_size shared_expert_intermediate_size shared_intermediate_size",
    PLACES: "max_position_embeddings n_positions n_ctx max_seq_len max_sequence_length",
    1: "n_group topk_group n_shared_experts num_shared_experts",
    16: "q_lora_rank kv_lora_rank",
}  # fmt: skip
_SMALL = {name: size for size, names in _NAMES.items() for name in names.split()}
_OF_NONE = ("head_dim", "num_key_value_heads", "n_inner", "intermediate_size")  # set where unset
# [PAD], [CLS] and [SEP] of the tokenizer
SPECIAL = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2}
_ONE_BY_ONE = {"num_key_value_heads": HEADS, "qk_head_dim": 16}  # of keys made from a small vector
_MAMBA = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8}

# kind → what is not made small by its name, or must fit something else
SETTINGS: dict[str, dict[str, Any]] = {
    "bamba": _MAMBA | {"attn_layer_indices": [1]},
    "codegen": {"rotary_dim": 4},
    "dbrx": {
        "ffn_config": {"ffn_hidden_size": 40, "moe_num_experts": 4, "moe_top_k": 2, "hidden_size": WIDTH},
        "attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8.0},
    },
    "cohere_compass_text": {"rope_parameters": {"full_attention": {"rope_theta": 1e4, "rope_type": "default"}}},
    "deepseek_v2": {"first_k_dense_replace": 1, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1},
    "dots1": {
        "first_k_dense_replace": 1, "moe_intermediate_size": 40, "n_routed_experts": HEADS, "n_shared_experts": 1,
        "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
    },
    "dots3_note_text": {"num_key_value_heads": HEADS},
    "esm": {"vocab_size": VOCABULARY},
    "esmc": {"num_key_value_heads": HEADS},
    "falcon_h1": _MAMBA | {"mamba_d_ssm": 64, "mamba_chunk_size": 4},
    "gemma3n_text": {
        "num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2,
        "num_kv_shared_layers": 2, "hidden_size_per_layer_input": 8, "laurel_rank": 4,
        "activation_sparsity_pattern": [0.0] * 4, "intermediate_size": [40] * 4,
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 3},
    "gptj": {"rotary_dim": 4},
    "granitemoehybrid": _MAMBA | {"layer_types": ["mamba", "attention"]},
    "jamba": {
        "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1,
        "mamba_d_state": 4, "mamba_dt_rank": 4,
    },
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "lfm3": {"layer_types": ["conv", "full_attention"]},
    "led": {"attention_window": 4},
    "lilt": {"channel_shrink_ratio": 2, "hidden_size": 48},
    "longcat_flash": {
        "num_layers": 1, "num_hidden_layers": 2, "expert_ffn_hidden_size": 16, "zero_expert_num": 2,
    },
    "luke": {"entity_vocab_size": 7, "entity_emb_size": 8},
    "longformer": {"attention_window": 4},
    "mamba2": {"num_heads": 8, "head_dim": 8, "n_groups": 1},
    "nemotron_h": {
        "mamba_num_heads": 4, "mamba_head_dim": 8, "n_groups": 1, "ssm_state_size": 8, "chunk_size": 4,
        "moe_shared_expert_intermediate_size": 40,
    },
    "perceiver": {
        "num_latents": 6, "d_latents": WIDTH, "num_blocks": 1, "num_self_attends_per_block": 2,
        "num_self_attention_heads": 4, "num_cross_attention_heads": 4, "qk_channels": WIDTH, "v_channels": WIDTH,
    },
    "recurrent_gemma": {
        "num_hidden_layers": 3, "block_types": ["recurrent", "recurrent", "attention"], "lru_width": WIDTH,
    },
    "reformer": {
        "axial_pos_embds_dim": [8, 24], "axial_pos_shape": [8, 8], "attn_layers": ["local", "lsh"],
        "is_decoder": False, "feed_forward_size": 40, "local_attn_chunk_length": 4, "lsh_attn_chunk_length": 4,
        "num_buckets": 2,
    },
    "roc_bert": {
        "pronunciation_vocab_size": 7, "shape_vocab_size": 7, "pronunciation_embed_dim": 8, "shape_embed_dim": 8,
    },
    "xmod": {"default_language": "en_XX"},
    "zamba2": {
        "num_hidden_layers": 3, "layer_types": ["mamba", "hybrid", "mamba"], "n_mamba_heads": 4, "mamba_headdim": 16,
        "mamba_d_state": 8, "num_mem_blocks": 1, "adapter_rank": 4, "num_key_value_heads": HEADS, "mamba_ngroups": 1,
        "attention_head_dim": 16, "hybrid_layer_ids": [1],
    },
    "zaya": {"num_experts_per_tok": 1},
}  # fmt: skip


def class_of(kind: str) -> str:
    """Return the class of a kind of model that generates, fills masks or makes vectors; "" if there is none."""
    for table in _TABLES:
        if named := getattr(modeling_auto, table).get(kind):
            return named if isinstance(named, str) else named[0]
    return ""


def save(kind: str, folder: Path, **settings: Any) -> None:
    """Save a random model of this kind, whose heads differ by more than rounding, and the tokenizer."""
    made, config = getattr(transformers, class_of(kind)), _config(kind, settings)
    with torch.device("meta"):
        n = sum(p.numel() for p in made(config).parameters())
    assert n < LARGEST, f"{kind} has {n:,} numbers"
    torch.manual_seed(1)
    module = made(config).eval()
    with torch.no_grad():
        for name, p in module.named_parameters():
            if p.dim() > 1:
                p.normal_(std=0.3)  # so that heads differ by more than rounding
            elif name.endswith("bias"):
                p.normal_(std=0.1)
    module.save_pretrained(folder)
    library_tokenizer(folder, VOCABULARY - 8)  # a library may add some


def _config(kind: str, settings: dict[str, Any]) -> Any:
    default = CONFIG_MAPPING[kind]
    return default(**(SPECIAL | _shrunk(default()) | SETTINGS.get(kind, {}) | settings))


def _shrunk(default: Any) -> dict[str, Any]:
    """Return the sizes of a configuration and of the configurations within it, made small by their names."""
    small: dict[str, Any] = {}
    described = default.to_dict()
    for name, value in described.items():
        part = getattr(default, name, None) if isinstance(value, dict) else None
        if hasattr(part, "to_dict"):
            small[name] = _shrunk(part)
        elif name in SPECIAL:
            small[name] = SPECIAL[name]
        elif name == "layer_types" and value:
            small[name] = [value[0], value[-1]]
        elif name in _SMALL and (type(value) is int or (value is None and name in _OF_NONE)):
            small[name] = _SMALL[name]
    if "kv_lora_rank" in described:
        small |= {name: size for name, size in _ONE_BY_ONE.items() if name in described}
    return small
