"""What the configuration, the module and the tokenizer of a folder say of its model's sizes and special tokens."""

import math
import re
from typing import Any

from torch import nn

from models.errors import CheckpointError
from models.hub.config import HubConfig

LONGEST = 4096  # tokens of a text that are read here, however many a model reads
MOST_LAYERS = 1024
_LAYERS = re.compile(r"(layer|layers|block|blocks|repeats)$")
_WIDTHS = re.compile(
    r"^(vocab_size|hidden_size|embedding_size|intermediate_size|num_labels|n_embd|d_\w+|dim|hidden_dim|\w*ffn_dim|\w*heads)$"
)


def check_settings(described: dict[str, Any], stored: int) -> None:
    """Raises CheckpointError if config.json, as it was read, asks for more layers than any model has, or for a size above the
    `stored` numbers of its weights; building such a model could take all memory and hours."""
    for key, value in described.items():
        if isinstance(value, dict):
            check_settings(value, stored)
        for number in value if isinstance(value, list) else [value]:
            if not isinstance(number, int | float) or isinstance(number, bool):
                continue
            if _LAYERS.search(key) and number > MOST_LAYERS:
                raise CheckpointError(f"{key} must be at most {MOST_LAYERS:,}, not {number:,}")
            if _WIDTHS.search(key) and number > stored:
                raise CheckpointError(
                    f"{key} must be at most {stored:,}, the numbers in its weights, not {number:,}"
                )


def sizes_of(
    name: str, module: nn.Module, config: Any, library: Any, gives_weights: bool
) -> HubConfig:
    text = config.get_text_config(decoder=True)
    n_heads, embedding = int(text.num_attention_heads), module.get_input_embeddings()
    vocab_size = int(embedding.weight.shape[0])
    said = vocab_size, getattr(module, "generation_config", None), text, config
    whole = said[0], said[1], config  # the part for the decoder knows its class's default alone
    start, begin, pad = (
        next(iter(_special(f"{name}_token_id", *each)), -1)
        for name, each in (("decoder_start", whole), ("bos", said), ("pad", said))
    )
    first, last = (
        next(iter(_special(f"forced_{name}_token_id", *said[:2])), -1) for name in ("bos", "eos")
    )
    ends = _special("eos_token_id", *said)
    end = ends[0] if ends else -1
    return HubConfig(
        architecture=name,
        vocab_size=vocab_size,
        d_model=int(text.hidden_size),
        n_heads=n_heads,
        n_layers=int(text.num_hidden_layers),
        n_ctx=_n_ctx(text, module, library),
        n_key_heads=int(getattr(text, "num_key_value_heads", None) or n_heads),
        dtype=str(module.dtype).removeprefix("torch."),
        pad_id=vocab_size,
        start_id=begin if start < 0 else start,
        end_id=end,
        fill_id=max(0, end if pad < 0 else pad),
        end_ids=ends,
        first_id=first if getattr(config, "is_encoder_decoder", False) else -1,
        last_id=last,
        gives_weights=gives_weights,
    )


def _special(name: str, vocab_size: int, *configs: Any) -> tuple[int, ...]:
    """The ids of a special token, by the first of these that names one of the vocabulary; none where none does."""
    values = [getattr(config, name, None) for config in configs]
    named = (value if isinstance(value, list) else [value] for value in values)
    known = (tuple(i for i in ids if isinstance(i, int) and 0 <= i < vocab_size) for ids in named)
    return next(filter(None, known), ())


def _n_ctx(text: Any, module: nn.Module, library: Any) -> int:
    """The longest text: by the configuration, by the tokenizer, and of a table of positions that keeps rows for padding what is
    left."""
    said = getattr(text, "max_position_embeddings", None) or math.inf
    said = said if said > 0 else math.inf
    tables = [
        m
        for m in module.modules()
        if isinstance(m, nn.Embedding) and m.num_embeddings == said and m.padding_idx is not None
    ]
    left = [
        m.num_embeddings - m.padding_idx - 1
        for m in tables
        if m is not module.get_input_embeddings()
    ]
    by_tokenizer = getattr(library, "model_max_length", None) or LONGEST
    longest = int(min([said, LONGEST, by_tokenizer, *left]))
    if longest < 1:
        raise CheckpointError(
            f"it reads at most {longest} tokens: model_max_length is {by_tokenizer}"
        )
    return longest
