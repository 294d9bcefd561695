"""A Hugging Face checkpoint folder, opened as it lies on disk. `transformers` is imported here and only then; nothing is unpickled,
no code of the folder's own is run, and nothing is fetched."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from models import loading
from models.architectures.base import Family
from models.checkpoint import CONFIG, Checkpoint, Description
from models.errors import CheckpointError
from models.hub import files, order, probe, writing_probe
from models.hub.config import HubConfig
from models.hub.families import anatomies, rotary_paths
from models.hub.kinds import kind_of
from models.hub.model import BACKWARDS, READER, HubModel
from models.hub.readers import Classifier
from models.hub.sizes import sizes_of
from models.hub.tokenizer import SECOND_CLOSING, HubTokenizer, IdTokenizer
from models.hub.writers import CausalLM
from models.tokenizers.base import Tokenizer

INSTALL = 'this is a Hugging Face checkpoint, for which transformers has to be installed: pip install "attnscope[hub]"'


def is_folder(folder: Path) -> bool:
    """Return True if config.json describes a transformers model, False if it is of our own format or missing.

    Raises CheckpointError if it cannot be read."""
    if not os.path.lexists(folder / CONFIG):
        return False
    config = files.config(folder)
    return "architecture" not in config and ("model_type" in config or "architectures" in config)


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
        name, opens, ask = kind_of(described)
        files.check_weights(folder, device, _dtype(dtype))
        config = transformers.AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        config.use_cache = False  # a cache hands on copies of k and v, which are of no product; who writes asks for one
        module, gives_weights = _opened(folder, getattr(transformers, opens), config, _dtype(dtype))
        module = module.to(device).eval()
        library = _library_tokenizer(transformers, folder)
        sizes = sizes_of(name, module, config, library, gives_weights)
        tokenizer = _tokenizer(library, config, module, sizes)
        model = _hub_model(ask, module, config, sizes, tokenizer)
        return Checkpoint(folder, model, tokenizer, {"examples": model.examples(tokenizer)})


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise CheckpointError(INSTALL) from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if loading.is_watched() and hasattr(transformers.logging, "set_tqdm_hook"):
        transformers.logging.set_tqdm_hook(_reporting_bar)
    return transformers


def _reporting_bar(bar: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """In the place of the library's bar over the tensors of a model, one that tells whoever watches."""
    if (
        loading.is_watched()
        and settings.get("desc") == "Loading weights"
        and args
        and hasattr(args[0], "__len__")
    ):
        return loading.with_progress(loading.PLACED, args[0], len(args[0]))
    return bar(*args, **settings)


@contextlib.contextmanager
def _named(folder: Path) -> Iterator[None]:
    """Whatever the library says of a folder, as a CheckpointError that names it."""
    try:
        yield
    except loading.Cancelled:
        raise
    except CheckpointError as error:
        named = str(error).startswith(str(folder))
        raise CheckpointError(str(error) if named else f"{folder}: {error}") from None
    except Exception as error:  # the library raises what it likes
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise CheckpointError(f"{folder}: {first[:300]}") from None


def _dtype(dtype: str | torch.dtype | None) -> torch.dtype | None:
    named = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if dtype is not None and named not in (torch.float32, torch.float16, torch.bfloat16):
        raise CheckpointError(f"dtype must be float32, float16 or bfloat16, not {dtype!r}")
    return named


def _opened(
    folder: Path, auto: Any, config: Any, dtype: torch.dtype | None
) -> tuple[nn.Module, bool]:
    """The model with its weights, and whether its library can only hand out finished attention weights."""
    how = {
        "config": config,
        "local_files_only": True,
        "trust_remote_code": False,
        "dtype": dtype or "auto",
        "weights_only": True,
    }
    try:
        module, found = auto.from_pretrained(
            folder, attn_implementation="sdpa", output_loading_info=True, **how
        )
        gives = False
    except ValueError as error:
        if "scaled_dot_product_attention" not in str(error) and "sdpa" not in str(error).lower():
            raise
        module, found = auto.from_pretrained(
            folder, attn_implementation="eager", output_loading_info=True, **how
        )
        gives = True
    missing = sorted(found["missing_keys"])
    needed = [
        name for name in missing if "pooler" not in name.split(".")
    ]  # whose vector nothing here reads
    if odd := needed or sorted(map(str, found["mismatched_keys"])):
        what = f"{len(odd)} parameters are not in its weights, {odd[0]:.100} for one"
        raise CheckpointError(f"{what}; nothing is drawn in their place")
    parameters = list(module.named_parameters())
    for name, parameter in loading.with_progress(loading.CHECKED, parameters, len(parameters)):
        if not bool(parameter.isfinite().all()):
            raise CheckpointError(f"{name} holds values that are not finite")
    return module, gives


def _library_tokenizer(transformers: Any, folder: Path) -> Any:
    """None where the folder holds none that can be read here."""
    if not any((folder / name).is_file() for name in files.TOKENIZER_FILES):
        return None
    library = transformers.AutoTokenizer.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False
    )
    return library if getattr(library, "backend_tokenizer", None) is not None else None


def _tokenizer(library: Any, config: Any, module: nn.Module, sizes: HubConfig) -> Tokenizer:
    special = {"pad": sizes.pad_id, "start": sizes.start_id, "end": sizes.end_id}
    special = {name: i for name, i in special.items() if i >= 0}
    if library is None:
        return IdTokenizer(special, sizes.vocab_size)
    if len(library) > sizes.vocab_size:
        raise CheckpointError(
            f"its tokenizer has {len(library):,} tokens, but the model's embedding {sizes.vocab_size:,} rows"
        )
    return HubTokenizer(library, special, sizes.vocab_size)


def _hub_model(
    kind: type[HubModel], module: nn.Module, config: Any, sizes: HubConfig, tokenizer: Tokenizer
) -> HubModel:
    """The model as what it can be asked for; what a short run of it shows decides, where its class does not."""
    text = config.get_text_config(decoder=True)
    settings: dict[str, Any] = {
        "marks_segments": kind.streams == ("text",)
        and not kind.writes
        and (getattr(text, "type_vocab_size", 0) or 0) > 1,
        "pairs": SECOND_CLOSING in tokenizer.frames,
    }
    if kind is CausalLM and not writing_probe.looks_back_only(module, sizes):
        kind = HubModel
    if kind is Classifier:
        names = [str(config.id2label[i]) for i in sorted(config.id2label)]
        settings |= {"names": names, "position": probe.answering_position(module, sizes)}
    model = kind(module, sizes, **settings)
    probe.check_recorded(model)
    probe.check_two_steps(model)
    if model.kinds == (READER,) and not probe.looks_ahead(model):
        model.kinds = (BACKWARDS,)
    if model.can_write:
        writing_probe.choose_cache(model)
    probe.lay_open(model, anatomies(config.model_type, module))
    model.rotary = probe.rotary(model, rotary_paths(config.model_type))
    if (table := probe.position_table(model)) is not None:
        model.positions = table
        model.config = replace(sizes, positions="learned" if table.is_learned else "fixed")
    model.seen_order = order.told_by(model)
    return model
