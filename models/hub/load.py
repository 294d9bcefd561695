"""Open a Hugging Face checkpoint folder from disk.

`transformers` is imported only when a folder is opened. Nothing is unpickled or downloaded, and no
code of the folder is run.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from models import loading
from models.architectures.base import Family
from models.checkpoint import CONFIG, Checkpoint, Description
from models.errors import CheckpointError, first_line
from models.hub import files
from models.hub.files import stage_folder
from models.hub.images import load as images
from models.hub.images.model import ImageModel
from models.hub.images.text_image import TEXT_TOWER, TextImageModel, check_towers
from models.hub.kinds import model_kind, why_nothing_is_shown
from models.hub.model import HubModel
from models.hub.python_tokenizer import PythonTokenizer, target_vocabulary
from models.hub.sizes import HubConfig, check_dtype, check_settings, hub_sizes, missing_in
from models.hub.sounds import load as sounds
from models.hub.sounds.model import SpeechToText
from models.hub.sounds.open_reader import opened_reader
from models.hub.sounds.reader import SoundReader
from models.hub.text_model import text_model
from models.hub.tokenizer import (
    HubTokenizer,
    IdTokenizer,
)
from models.hub.trial import client as trials
from models.hub.weights import check_unread, open_module
from models.tokenizers.base import Tokenizer

INSTALL_TRANSFORMERS = 'this is a Hugging Face checkpoint, for which transformers has to be installed: pip install "attnscope[hub]"'


def is_folder(folder: Path) -> bool:
    """Return True for a transformers model, False for our own format or a missing config.json.

    Raises CheckpointError if it cannot be read, or contains an adapter.
    """
    if os.path.lexists(folder / files.ADAPTER):
        raise CheckpointError(f"{folder}: {files.HAS_ADAPTER}")
    if not os.path.lexists(folder / CONFIG):
        return False
    config = files.config(folder)
    return "architecture" not in config and ("model_type" in config or "architectures" in config)


def describe_folder(folder: Path) -> Description:
    """Describe a folder by its config.json. Raises CheckpointError."""
    with _name_folder(folder):
        names = files.config(folder).get("architectures") or [""]
    return Description(Family(f"{names[0]!s:.60} (Hugging Face)"), {})


def open_folder(
    folder: Path, device: torch.device, dtype: str | torch.dtype | None = None
) -> Checkpoint:
    """Open a folder, in the dtype of the stored numbers if `dtype` is None.

    Raises CheckpointError, saying what is wrong with it.
    """
    trials.start_ahead()
    transformers_library()
    with _name_folder(folder):
        described, number = files.config(folder), _dtype(dtype)
        model_kind(described)
        files.check_weights(folder, device, number)
        check_settings(described, files.stored_numbers(folder))
        check_dtype(described, is_given=number is not None)
        with stage_folder(folder) as private, _name_folder(folder, private):
            files.check_room(trials.pass_trial(private, _name_of(number)), device)
            return _read(folder, private, device, number)


def _read(
    folder: Path, private: Path, device: torch.device, dtype: torch.dtype | None
) -> Checkpoint:
    """Open the staged copy of a folder, which has passed its trial."""
    plan = opening_plan(private)
    opened = open_module(private, plan.auto, plan.config, dtype)
    module = opened.module.to(device).eval()
    model, tokenizer = _wrap(private, plan, module, opened.gives_weights)
    check_unread(model, opened.drawn)
    model.unused = opened.unused
    return Checkpoint(folder, model, tokenizer, {"examples": model.examples(tokenizer)})


def _wrap(
    private: Path, plan: OpeningPlan, module: nn.Module, gives_weights: bool
) -> tuple[HubModel, Tokenizer]:
    """Wrap a module as the kind of model it is, with the tokenizer or processor of its input."""
    if issubclass(plan.model_class, ImageModel):
        return images.vision_model(
            private, plan.model_class, module, plan.config, gives_weights, transformers_library()
        )
    if issubclass(plan.model_class, SoundReader):
        return opened_reader(private, plan.model_class, module, plan.config, transformers_library())
    library = library_tokenizer(private)
    has_towers = issubclass(plan.model_class, TextImageModel)
    if has_towers:
        check_towers(module)
    reader = module.get_submodule(TEXT_TOWER) if has_towers else module
    sizes = _known_sizes(plan.name, reader, plan.config, library, gives_weights)
    if issubclass(plan.model_class, SpeechToText):
        return sounds.opened_sound(
            private,
            module,
            sizes,
            lambda kinds: tokenizer_of(library, plan.config, module, sizes, kinds),
            transformers_library(),
        )
    tokenizer = tokenizer_of(library, plan.config, module, sizes)
    if has_towers:
        if not isinstance(tokenizer, HubTokenizer):
            raise CheckpointError("it has no tokenizer for its texts")
        special = {name: i for name, i in tokenizer.special_ids.items()}
        return images.opened_with_text(
            private, module, sizes, library, special, transformers_library()
        )
    model = text_model(plan.model_class, module, plan.config, sizes, library, tokenizer)
    return model, tokenizer


@dataclass(frozen=True)
class OpeningPlan:
    """The way to open a folder: configuration, class name, transformers' class, and ours."""

    config: Any
    name: str
    auto: Any
    model_class: type[HubModel]


def opening_plan(folder: Path) -> OpeningPlan:
    """Read the configuration of a folder. Raises CheckpointError, or an error of transformers."""
    transformers = transformers_library()
    name, opens, model_class = model_kind(files.config(folder))
    config = transformers.AutoConfig.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False
    )
    auto = getattr(transformers, opens)
    if type(config) not in auto._model_mapping:
        raise CheckpointError(f"{name:.80} is not opened by transformers' {opens}")
    config.return_dict = True  # a tuple has no names
    config.use_cache = False  # a cache returns copies of k and v, not products
    return OpeningPlan(config, name, auto, model_class)


def transformers_library() -> Any:
    """Import transformers. Raises CheckpointError if it is not installed."""
    try:
        import transformers
    except ImportError:
        raise CheckpointError(INSTALL_TRANSFORMERS) from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if loading.is_watched() and hasattr(transformers.logging, "set_tqdm_hook"):
        transformers.logging.set_tqdm_hook(_reporting_bar)
    return transformers


def _reporting_bar(bar: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Replace transformers' progress bar by one that reports to our callback."""
    if (
        loading.is_watched()
        and settings.get("desc") == "Loading weights"
        and args
        and hasattr(args[0], "__len__")
    ):
        return loading.with_progress(loading.PLACED, args[0], len(args[0]))
    return bar(*args, **settings)


@contextlib.contextmanager
def _name_folder(folder: Path, private: Path | None = None) -> Iterator[None]:
    """Turn any error of the library into a CheckpointError that names the folder.

    The path of its `private` copy is replaced by that of the folder.
    """
    try:
        yield
    except loading.Cancelled:
        raise
    except CheckpointError as error:
        raise CheckpointError(_of_folder(str(error), folder, private)) from None
    except BaseException as error:  # the library may raise anything, even a panic of its own
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        first = first_line(error, 300) or type(error).__name__
        if isinstance(error, AttributeError | TypeError):  # Python's own: no explanation
            first = f"opening it raised {type(error).__name__} ({first})"
        raise CheckpointError(_of_folder(first, folder, private)) from None


def _of_folder(message: str, folder: Path, private: Path | None) -> str:
    """Return a message that begins with the folder, and names it instead of its private copy."""
    message = message if private is None else message.replace(str(private), str(folder))
    return message if message.startswith(str(folder)) else f"{folder}: {message}"


def _dtype(dtype: str | torch.dtype | None) -> torch.dtype | None:
    value = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if dtype is not None and value not in (torch.float32, torch.float16, torch.bfloat16):
        raise CheckpointError(f"dtype must be float32, float16 or bfloat16, not {dtype!r}")
    return value


def _name_of(dtype: torch.dtype | None) -> str:
    return "" if dtype is None else str(dtype).removeprefix("torch.")


def library_tokenizer(folder: Path) -> Any:
    """Return the tokenizer that transformers reads from a folder; None if there is none.

    Raises CheckpointError if its vocabulary is missing: every text would be unknown tokens.
    """
    if not any((folder / name).is_file() for name in files.TOKENIZER_FILES):
        return None
    library = transformers_library().AutoTokenizer.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False
    )
    if len(library) <= len(set(library.all_special_ids)):
        raise CheckpointError(
            "its tokenizer has only special tokens: its vocabulary file is missing"
        )
    return library


def _known_sizes(name: str, module: nn.Module, config: Any, library: Any, gives: bool) -> HubConfig:
    """Return the sizes of a model. Raises CheckpointError, with the reason, if it has no heads."""
    try:
        return hub_sizes(name, module, config, library, gives)
    except (AttributeError, NotImplementedError, TypeError):
        raise CheckpointError(why_nothing_is_shown(module, missing_in(module, config))) from None


def tokenizer_of(
    library: Any,
    config: Any,
    module: nn.Module,
    sizes: HubConfig,
    kinds: Mapping[type, Any] = MappingProxyType({}),
) -> Tokenizer:
    """Wrap the result of `library_tokenizer`; if that is None, token ids are typed.

    `kinds` maps a class of tokenizer to the class used instead. Raises CheckpointError.
    """
    special = {"pad": sizes.pad_id, "start": sizes.start_id, "end": sizes.end_id}
    special = {name: i for name, i in special.items() if i >= 0}
    if library is None:
        n_ids = min(sizes.tables or (sizes.vocab_size,))
        return kinds.get(IdTokenizer, IdTokenizer)(special, n_ids)
    n_target = len(target_vocabulary(library)) or len(library)
    rows = sizes.tables or (sizes.vocab_size, sizes.vocab_size)
    for n_tokens, n_rows in zip((len(library), n_target), rows, strict=True):
        if n_tokens > n_rows:
            raise CheckpointError(
                f"its tokenizer has {n_tokens:,} tokens, but the model's embedding has {n_rows:,} rows"
            )
    in_rust = getattr(library, "backend_tokenizer", None) is not None
    kind = HubTokenizer if in_rust else PythonTokenizer
    return kinds.get(kind, kind)(library, special, sizes.vocab_size)
