"""A Hugging Face checkpoint folder, opened as it lies on disk. `transformers` is imported here and only then; nothing is unpickled,
no code of the folder's own is run, and nothing is fetched."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from models.architectures.base import Family
from models.checkpoint import CONFIG, Checkpoint, Description
from models.errors import CheckpointError
from models.hub import files, probe
from models.hub.config import HubConfig
from models.hub.families import taps_of
from models.hub.model import CausalLM, Classifier, EncoderDecoderLM, HubModel, MaskedLM, QuestionAnswering
from models.hub.tokenizer import SECOND_CLOSING, HubTokenizer, IdTokenizer
from models.tokenizers.base import Tokenizer

INSTALL = 'this is a Hugging Face checkpoint, for which transformers has to be installed: pip install "attnscope[hub]"'
LONGEST = 4096      # tokens of a text that are read here, however many a model reads

# transformers' table of classes → its class that opens them, and ours that asks them; what is in none makes vectors
KINDS: tuple[tuple[str, str, type[HubModel]], ...] = (
    ("MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES", "AutoModelForSeq2SeqLM", EncoderDecoderLM),
    ("MODEL_FOR_MASKED_LM_MAPPING_NAMES", "AutoModelForMaskedLM", MaskedLM),
    ("MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES", "AutoModelForSequenceClassification", Classifier),
    ("MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES", "AutoModelForQuestionAnswering", QuestionAnswering),
    ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "AutoModelForCausalLM", CausalLM),
    ("MODEL_FOR_PRETRAINING_MAPPING_NAMES", "AutoModelForMaskedLM", MaskedLM),
    ("MODEL_MAPPING_NAMES", "AutoModel", HubModel),
)


def is_folder(folder: Path) -> bool:
    """Whether this is a folder of transformers' and not one of ours."""
    with contextlib.suppress(OSError, ValueError):
        config = json.loads((folder / CONFIG).read_bytes()[: files.LARGEST_CONFIG])
        return isinstance(config, dict) and "architecture" not in config and ("model_type" in config or "architectures" in config)
    return False


def describe(folder: Path) -> Description:
    """What a folder says it is. Raises CheckpointError."""
    with _named(folder):
        names = files.config(folder).get("architectures") or [""]
    return Description(Family(f"{names[0]!s:.60} (Hugging Face)", 9999), {})


def load(folder: Path, device: torch.device, dtype: str | torch.dtype | None = None) -> Checkpoint:
    """Open a folder; `dtype` is that of the stored numbers if None. Raises CheckpointError, saying what is wrong with it."""
    transformers = _transformers()
    with _named(folder):
        described = files.config(folder)
        name, opens, ask = _kind(described)
        files.check_weights(folder, device, _dtype(dtype))
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        module, gives_weights = _opened(folder, getattr(transformers, opens), config, _dtype(dtype))
        module = module.to(device).eval()
        library = _library_tokenizer(transformers, folder)
        sizes = _sizes(name, module, config, library, gives_weights)
        tokenizer = _tokenizer(library, config, module, sizes)
        model = _asked(ask, module, config, sizes, tokenizer)
        return Checkpoint(folder, model, tokenizer, {"examples": model.examples(tokenizer)})


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise CheckpointError(INSTALL) from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


@contextlib.contextmanager
def _named(folder: Path) -> Iterator[None]:
    """Whatever the library says of a folder, as a CheckpointError that names it."""
    try:
        yield
    except CheckpointError as error:
        raise CheckpointError(f"{folder}: {error}") from None
    except Exception as error:          # the library raises what it likes
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise CheckpointError(f"{folder}: {first[:300]}") from None


def _kind(described: dict[str, Any]) -> tuple[str, str, type[HubModel]]:
    """The name of a folder's class, transformers' class that opens it, and ours that asks it."""
    from transformers.models.auto import modeling_auto
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    kind, names = described.get("model_type"), described.get("architectures") or []
    if kind not in CONFIG_MAPPING_NAMES:
        if "auto_map" in described:
            raise CheckpointError(f"{kind!r:.60} brings code of its own to run (trust_remote_code), which is not done here")
        raise CheckpointError(f"{kind!r:.60} is no kind of model that this version of transformers knows")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise CheckpointError("config.json names no architectures, so that it is not known what the model was made for")
    for table, opens, ask in KINDS:
        known = getattr(modeling_auto, table).get(kind, ())
        if names[0] in ((known,) if isinstance(known, str) else known):
            return names[0], opens, ask
    raise CheckpointError(f"{names[0]:.80} is none of what can be opened here: models that read text and write, fill masks, "
                          "classify, answer questions or make vectors")


def _dtype(dtype: str | torch.dtype | None) -> torch.dtype | None:
    named = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if dtype is not None and named not in (torch.float32, torch.float16, torch.bfloat16):
        raise CheckpointError(f"dtype must be float32, float16 or bfloat16, not {dtype!r}")
    return named


def _opened(folder: Path, auto: Any, config: Any, dtype: torch.dtype | None) -> tuple[nn.Module, bool]:
    """The model with its weights, and whether its library can only hand out finished attention weights."""
    how = {"config": config, "local_files_only": True, "trust_remote_code": False, "dtype": dtype or "auto", "weights_only": True}
    try:
        module, found = auto.from_pretrained(folder, attn_implementation="sdpa", output_loading_info=True, **how)
        gives = False
    except ValueError as error:
        if "scaled_dot_product_attention" not in str(error) and "sdpa" not in str(error).lower():
            raise
        module, found = auto.from_pretrained(folder, attn_implementation="eager", output_loading_info=True, **how)
        gives = True
    missing = sorted(found["missing_keys"])
    needed = [name for name in missing if "pooler" not in name.split(".")]      # whose vector nothing here reads
    if odd := needed or sorted(map(str, found["mismatched_keys"])):
        what = f"{len(odd)} parameters are not in its weights, {odd[0]:.100} for one"
        raise CheckpointError(f"{what}; nothing is drawn in their place")
    for name, parameter in module.named_parameters():
        if not bool(parameter.isfinite().all()):
            raise CheckpointError(f"{name} holds values that are not finite")
    return module, gives


def _sizes(name: str, module: nn.Module, config: Any, library: Any, gives_weights: bool) -> HubConfig:
    text = config.get_text_config(decoder=True)
    n_heads, embedding = int(text.num_attention_heads), module.get_input_embeddings()
    vocab_size = int(embedding.weight.shape[0])
    start, begin, end, pad = (_special(name, vocab_size, getattr(module, "generation_config", None), text, config)
                              for name in ("decoder_start_token_id", "bos_token_id", "eos_token_id", "pad_token_id"))
    return HubConfig(
        architecture=name, vocab_size=vocab_size, d_model=int(text.hidden_size), n_heads=n_heads,
        n_layers=int(text.num_hidden_layers), n_ctx=_n_ctx(text, module, library),
        n_key_heads=int(getattr(text, "num_key_value_heads", None) or n_heads), dtype=str(module.dtype).removeprefix("torch."),
        pad_id=vocab_size, start_id=begin if start < 0 else start, end_id=end, fill_id=max(0, end if pad < 0 else pad),
        gives_weights=gives_weights,
    )


def _special(name: str, vocab_size: int, *configs: Any) -> int:
    """The id of a special token, by the first of these that names one of the vocabulary; −1 where none does."""
    values = [getattr(config, name, None) for config in configs]
    ids = [value[0] if isinstance(value, list) and value else value for value in values]
    return next((i for i in ids if isinstance(i, int) and 0 <= i < vocab_size), -1)


def _n_ctx(text: Any, module: nn.Module, library: Any) -> int:
    """The longest text: by the configuration, by the tokenizer, and of a table of positions that keeps rows for padding what is
    left."""
    said = getattr(text, "max_position_embeddings", None) or math.inf
    said = said if said > 0 else math.inf
    tables = [m for m in module.modules() if isinstance(m, nn.Embedding) and m.num_embeddings == said and m.padding_idx is not None]
    left = [m.num_embeddings - m.padding_idx - 1 for m in tables if m is not module.get_input_embeddings()]
    return int(min([said, LONGEST, getattr(library, "model_max_length", None) or LONGEST, *left]))


def _library_tokenizer(transformers: Any, folder: Path) -> Any:
    """None where the folder holds none that can be read here."""
    if not any((folder / name).is_file() for name in files.TOKENIZER_FILES):
        return None
    library = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    return library if getattr(library, "backend_tokenizer", None) is not None else None


def _tokenizer(library: Any, config: Any, module: nn.Module, sizes: HubConfig) -> Tokenizer:
    special = {"pad": sizes.pad_id, "start": sizes.start_id, "end": sizes.end_id}
    special = {name: i for name, i in special.items() if i >= 0}
    if library is None:
        return IdTokenizer(special, sizes.vocab_size)
    if len(library) > sizes.vocab_size:
        raise CheckpointError(f"its tokenizer has {len(library):,} tokens, but the model's embedding {sizes.vocab_size:,} rows")
    return HubTokenizer(library, special, sizes.vocab_size)


def _asked(ask: type[HubModel], module: nn.Module, config: Any, sizes: HubConfig, tokenizer: Tokenizer) -> HubModel:
    """The model as what it can be asked for; what a short run of it shows decides, where its class does not."""
    text = config.get_text_config(decoder=True)
    settings: dict[str, Any] = {
        "taps": taps_of(config.model_type, module, sizes),
        "marks_segments": ask.streams == ("text",) and not ask.writes and (getattr(text, "type_vocab_size", 0) or 0) > 1,
        "pairs": SECOND_CLOSING in tokenizer.frames,
    }
    if ask is CausalLM and not probe.looks_back_only(module, sizes):
        ask = HubModel
    if ask is Classifier:
        names = [str(config.id2label[i]) for i in sorted(config.id2label)]
        settings |= {"names": names, "position": probe.answering_position(module, sizes)}
    made = ask(module, sizes, **settings)
    probe.check_recorded(made)
    if (table := probe.position_table(made)) is not None:
        made.positions = table
        made.config = replace(sizes, positions="learned" if table.is_learned else "fixed")
    return made
