"""The sizes and special tokens of a third-party model."""

import json
import re
from dataclasses import dataclass
from typing import Any

import torch

from models.architectures.base import Family
from models.errors import CheckpointError


@dataclass(frozen=True)
class HubConfig:
    """The sizes of a third-party model, from its configuration."""

    architecture: str  # the name of its class
    vocab_size: int  # rows of its embedding (the larger of two); 0 if it has none
    d_model: int
    n_heads: int
    n_layers: int
    n_ctx: int  # longest text that is read here, in tokens
    # heads of k and v, the fewest of any layer; below n_heads where a group of heads shares one
    n_key_heads: int
    dtype: str  # that it runs in; float32 is shown
    pad_id: int  # pads short rows; not a token of the vocabulary
    start_id: int = -1  # −1: it has none
    end_id: int = -1
    end_ids: tuple[int, ...] = ()  # all ids that end a text, if there are several
    first_id: int = -1  # the token that every generated text begins with
    last_id: int = -1  # ends a generated text that reaches the longest length
    fill_id: int = 0  # replaces pad_id in the model's input
    tables: tuple[int, ...] = ()  # rows of the embeddings of source and target, if they differ
    source: str = "Hugging Face"  # or "own module"
    # "learned" or "fixed" if a run looked position vectors up in a table
    positions: str = "none"
    # it runs with its library's own attention, which can return finished weights
    gives_weights: bool = False

    @property
    def family(self) -> Family:
        return Family(f"{self.architecture} ({self.source})")


_ORIGIN = {"_name_or_path", "transformers_version"}  # settings that no answer depends on
MAX_HUB_TOKENS = 4096  # tokens of a text that are read here, however many a model reads
MAX_LAYERS = 1024
_REQUIRED = "num_attention_heads", "hidden_size", "num_hidden_layers"
_DTYPES = "float64", "float32", "float16", "bfloat16"  # of config.json
_LAYERS = re.compile(r"(layer|layers|block|blocks|repeats)$")
_WIDTHS = re.compile(
    r"^(vocab_size|hidden_size|embedding_size|intermediate_size|num_labels|n_embd|d_\w+|dim|hidden_dim|\w*ffn_dim|\w*heads)$"
)


def check_settings(described: dict[str, Any], stored: int) -> None:
    """Raise CheckpointError for sizes in config.json that no model with these weights can have.

    The number of layers is bounded, and every width by the `stored` numbers of the weights:
    building a larger model could take all memory and hours.
    """
    for key, value in described.items():
        if isinstance(value, dict):
            check_settings(value, stored)
        for number in value if isinstance(value, list) else [value]:
            if not isinstance(number, int | float) or isinstance(number, bool):
                continue
            if _LAYERS.search(key) and number > MAX_LAYERS:
                raise CheckpointError(f"{key} must be at most {MAX_LAYERS:,}, not {number:,}")
            if _WIDTHS.search(key) and number > stored:
                raise CheckpointError(
                    f"{key} must be at most {stored:,}, the numbers in its weights, not {number:,}"
                )


def check_dtype(described: dict[str, Any], is_given: bool) -> None:
    """Raise CheckpointError for a dtype in config.json that no model runs in.

    If the caller gives another dtype (`is_given`), this one only has to be one of torch's.
    """
    dtype = described.get("dtype") or described.get("torch_dtype")
    known = isinstance(dtype, str) and isinstance(getattr(torch, dtype, None), torch.dtype)
    if dtype is not None and dtype not in _DTYPES and not (is_given and known):
        raise CheckpointError(
            f"dtype in config.json must be {', '.join(_DTYPES[:-1])} or {_DTYPES[-1]}, not {dtype!r:.40}"
        )


def hub_sizes(name: str, module: Any, config: Any, library: Any, gives_weights: bool) -> HubConfig:
    """Return the sizes of a model of transformers.

    Raises:
        AttributeError, NotImplementedError, TypeError: see `missing_in`.
        CheckpointError: it reads no text at all.
    """
    text = config.get_text_config(decoder=True)
    n_heads, tables = int(text.num_attention_heads), _table_rows(module)
    vocab_size = max(tables)
    generation = getattr(module, "generation_config", None)
    configs = generation, text, config
    # the decoder's part holds only the default of its class
    start = _first(_special("decoder_start_token_id", vocab_size, generation, config))
    begin = _first(_special("bos_token_id", vocab_size, *configs))
    pad = _first(_special("pad_token_id", vocab_size, *configs))
    first = _first(_special("forced_bos_token_id", vocab_size, generation))
    last = _first(_special("forced_eos_token_id", vocab_size, generation))
    ends = _special("eos_token_id", vocab_size, *configs)
    end = _first(ends)
    return HubConfig(
        architecture=name,
        vocab_size=vocab_size,
        d_model=int(text.hidden_size),
        n_heads=n_heads,
        n_layers=int(text.num_hidden_layers),
        n_ctx=_n_ctx(text, module.config, library),
        n_key_heads=_key_heads(text) or n_heads,
        dtype=str(module.dtype).removeprefix("torch."),
        pad_id=vocab_size,
        start_id=begin if start < 0 else start,
        end_id=end,
        fill_id=max(0, end if pad < 0 else pad),
        end_ids=ends,
        first_id=first if getattr(config, "is_encoder_decoder", False) else -1,
        last_id=last,
        tables=tables if min(tables) < vocab_size else (),
        gives_weights=gives_weights,
    )


def _table_rows(module: Any) -> tuple[int, int]:
    """Return the number of rows of the input embedding and of the output matrix."""
    n_read = int(module.get_input_embeddings().weight.shape[0])
    has_decoder = getattr(module.config, "is_encoder_decoder", False)
    output = module.get_output_embeddings() if has_decoder else None
    return n_read, n_read if output is None else int(output.weight.shape[0])


def settings_of(module: Any) -> str:
    """Return the whole configuration of a module as JSON, without the path it was read from."""
    configs = (getattr(module, name, None) for name in ("config", "generation_config"))
    settings = [config.to_dict() for config in configs if config and hasattr(config, "to_dict")]
    text = json.dumps(settings, skipkeys=True, default=str)
    return json.dumps(json.loads(text, object_hook=_without_origin))


def _without_origin(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in _ORIGIN}


ENCODER_CONFIGS = "vision_config", "encoder_config"  # of a part that is the encoder


def encoder_sizes(name: str, module: Any, n_tokens: int, gives: bool) -> HubConfig:
    """Return the sizes of an encoder of images or sounds.

    Raises CheckpointError if one of them is not a single number.
    """
    parts = (getattr(module.config, name, None) for name in ENCODER_CONFIGS)
    config = next(filter(None, parts), module.config)
    if reason := _missing(config):
        raise CheckpointError(reason)
    n_heads, d_model, n_layers = (getattr(config, key) for key in _REQUIRED)
    n_key_heads = getattr(config, "num_key_value_heads", None)
    return HubConfig(
        name, 0, d_model, n_heads, n_layers, n_tokens,
        n_key_heads if isinstance(n_key_heads, int) else n_heads,
        str(module.dtype).removeprefix("torch."), n_tokens, gives_weights=gives,
    )  # fmt: skip


def missing_in(module: Any, config: Any) -> str:
    """Return the sizes that a model does not give, as a reason for refusing it."""
    return (
        _missing(config.get_text_config(decoder=True))
        or f"{type(module).__name__:.80} provides no table with one embedding for each token"
    )


def _missing(config: Any) -> str:
    """Name the required sizes that are not a single number, as a reason; empty if all are."""
    odd = [name for name in _REQUIRED if not isinstance(getattr(config, name, None), int)]
    return (
        f"its configuration does not give a single number as its {' and '.join(odd)}" if odd else ""
    )


def _key_heads(text: Any) -> int:
    """Return the number of key heads, the fewest of any layer; 0 if none is given."""
    if getattr(text, "multi_query", False) and not getattr(text, "new_decoder_architecture", False):
        return 1  # in GPTBigCode and Falcon, whatever other number it gives
    name = "num_key_value_heads"
    try:
        numbers = [getattr(text, name, None)]
    except Exception:  # the library has its own error for layers that differ
        numbers = [getattr(layer, name, None) for layer in text.per_layer_config]
    numbers += [
        n for key, n in vars(text).items() if key.endswith(f"_{name}") or key == "num_kv_heads"
    ]
    return min((n for n in numbers if isinstance(n, int) and n), default=0)


def _first(ids: tuple[int, ...]) -> int:
    return ids[0] if ids else -1


def _special(name: str, vocab_size: int, *configs: Any) -> tuple[int, ...]:
    """Return the ids of a special token from the first configuration that names a valid one."""
    values = [getattr(config, name, None) for config in configs]
    lists = (value if isinstance(value, list) else [value] for value in values)
    valid = (tuple(i for i in ids if isinstance(i, int) and 0 <= i < vocab_size) for ids in lists)
    return next(filter(None, valid), ())


# names under which configurations give the longest text
LIMITS = (
    "max_position_embeddings",
    "max_encoder_position_embeddings",
    "max_seq_len",
    "max_target_positions",
    "max_text_positions",
)


def _n_ctx(text: Any, config: Any, library: Any) -> int:
    """Return the longest text, in tokens, by the configuration and the tokenizer.

    Raises CheckpointError for a length below 1.
    """
    parts = text, getattr(config, "encoder", None)
    limits = [getattr(part, name, None) for part in parts if part is not None for name in LIMITS]
    by_config = [n for n in limits if isinstance(n, int) and n > 0]
    by_tokenizer = getattr(library, "model_max_length", None) or MAX_HUB_TOKENS
    if not isinstance(by_tokenizer, int | float):
        raise CheckpointError(f"model_max_length must be a number, not {by_tokenizer!r:.40}")
    longest = int(min([*by_config, MAX_HUB_TOKENS, by_tokenizer]))
    if longest < 1:
        raise CheckpointError(
            f"it reads at most {longest} tokens: model_max_length is {by_tokenizer}"
        )
    return longest
