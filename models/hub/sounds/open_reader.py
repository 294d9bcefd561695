"""Open the folder of a model that reads a sound in one pass: its frames or patches."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.architectures.base import BY_VECTORS
from models.checkpoint_files import TOKENIZER
from models.errors import CheckpointError, InputError, first_line
from models.hub import confirm, probe
from models.hub.images.positions import added_positions
from models.hub.labels import label_names
from models.hub.layouts import layer_maps
from models.hub.positions import order_source_of_equal_inputs
from models.hub.sizes import encoder_sizes
from models.hub.sounds.columns import spectrogram_columns
from models.hub.sounds.frames import (
    SoundFrames,
    answers_per_frame,
    check_unpadded,
    measured_frames,
)
from models.hub.sounds.layout import sound_frames, spectrogram_grid
from models.hub.sounds.processor import (
    FrameReader,
    FrameTokenizer,
    SoundProcessor,
)
from models.hub.sounds.reader import CTCModel, SoundClassifier, SoundReader
from models.hub.sounds.spectrogram import PatchReader, SpectrogramClassifier
from models.printable import printable
from models.sounds import decoded_sound, example_sound

NO_SOUND_ATTENTION = (
    "no attention between the parts of a sound was seen in a run, so there is nothing to show"
)
VOCABULARY = "vocab.json"
MAX_LETTER = 20  # characters of the name of a class
MAX_SPELLED = 256  # characters that a tokenizer may write for three classes
TOKENIZER_SETTINGS = "tokenizer_config.json"


def opened_reader(
    folder: Path, kind: type[SoundReader], module: Any, config: Any, transformers: Any
) -> tuple[SoundReader, FrameTokenizer]:
    """Wrap a module as a model that reads a sound in one pass.

    Raises CheckpointError, with the reason, for a model that cannot be shown.
    """
    processor = SoundProcessor(folder, transformers)
    trial = processor.features(decoded_sound(example_sound()))
    names = label_names(config)
    is_of_one_size = trial.dim() == 2 and processor.rows is None
    if issubclass(kind, SoundClassifier) and is_of_one_size and _column_encoder(module) is None:
        return _opened_patches(module, processor, trial, names)
    with _on_sound_alone():
        if is_of_one_size:
            frames = _columns(module, processor, trial)
        else:
            frames = measured_frames(module, processor)
            check_unpadded(module, processor)
    sizes = encoder_sizes(type(module).__name__, module, frames.longest, False)
    about: dict[str, Any] = {"names": names}
    if issubclass(kind, CTCModel):
        about = spelling(folder, config, transformers)
        about["per_frame"] = _answers_per_frame(module, processor.reads, trial, frames)
    model = kind(
        module, sizes, reads=processor.reads, count_frames=frames.count, trial=trial, **about
    )
    _check_reader(model)
    return model, FrameTokenizer(FrameReader(processor, frames.count, frames.step), frames.longest)


def _answers_per_frame(module: Any, reads: str, trial: Tensor, frames: SoundFrames) -> int:
    """Return the number of answers of each frame. Raises CheckpointError."""
    inputs = {reads: trial[None].to(module.device, module.dtype)}
    with _on_sound_alone():
        return answers_per_frame(module, inputs, frames.count(trial))


def _opened_patches(
    module: Any, processor: SoundProcessor, trial: Float[Tensor, "a b"], names: list[str]
) -> tuple[SpectrogramClassifier, FrameTokenizer]:
    """Wrap a module as a classifier of the patches of a spectrogram. Raises CheckpointError."""
    columns = spectrogram_columns(processor, tuple(trial.shape))
    features = trial[None].to(module.device, module.dtype)
    with _on_sound_alone():
        grid = spectrogram_grid(module, processor.reads, features, columns, processor.rate)
    n = len(grid.tokens)
    sizes = encoder_sizes(type(module).__name__, module, n, False)
    model = SpectrogramClassifier(
        module, sizes, reads=processor.reads, count_frames=lambda _: n, trial=trial, names=names
    )
    _check_reader(model)
    patches = slice(len(grid.before), len(grid.before) + grid.n_patches)
    model.order_source = order_source_of_equal_inputs(model, (torch.ones_like(features),), patches)
    if (table := added_positions(module, **{processor.reads: features})) is not None:
        model.positions, model.order_source = table, BY_VECTORS
        model.config = replace(sizes, positions="learned")
    return model, FrameTokenizer(PatchReader(processor, grid, columns), n)


def _check_reader(model: SoundReader) -> None:
    """Raise CheckpointError unless a run shows attention; choose its layer map."""
    with _on_sound_alone():
        probe.check_trial(model, NO_SOUND_ATTENTION)
    confirm.choose_layer_map(model, layer_maps(model.module))


@contextmanager
def _on_sound_alone() -> Iterator[None]:
    """Turn any error of a run into a CheckpointError."""
    try:
        yield
    except (CheckpointError, InputError) as error:
        raise CheckpointError(str(error)) from None
    except Exception as error:  # the library may raise anything
        raise CheckpointError(f"it does not run on a sound alone ({first_line(error)})") from None


def _column_encoder(module: Any) -> nn.Module | None:
    """Return the encoder of a module that reads the columns of a spectrogram, if it has one."""
    encoder = getattr(module, "encoder", None)
    return encoder if isinstance(encoder, nn.Module) else None


def _columns(
    module: Any, processor: SoundProcessor, trial: Float[Tensor, "band time"]
) -> SoundFrames:
    """Return the frames that an encoder makes of a spectrogram of one size.

    Raises CheckpointError if they are not equal steps.
    """
    encoder = _column_encoder(module)
    if encoder is None:
        raise CheckpointError("it reads a spectrogram, but has no encoder of its columns")
    n_frames, step = sound_frames(encoder, trial[None].to(module.device, module.dtype))
    seconds = step * processor.max_seconds / trial.shape[-1]
    return SoundFrames(lambda features: n_frames, seconds, n_frames)


def spelling(folder: Path, config: Any, transformers: Any) -> dict[str, Any]:
    """Return the settings of a CTCModel: its classes' names and, if there is one, a decoder.

    Both come from the library's tokenizer if the folder has one that can be read. Otherwise the
    names are the letters of vocab.json or the tokens of tokenizer.json; a class without one is
    named by its number.
    """
    n_classes, blank = config.vocab_size, getattr(config, "pad_token_id", -1)
    if (library := _tokenizer(folder, n_classes, transformers)) is not None:
        known = {i for i in library.get_vocab().values() if i < n_classes}
        letters = {i: library.convert_ids_to_tokens(i) for i in known}
        decode: Callable[[list[int]], str] | None = library.decode
    else:
        letters, decode = _letters(folder, transformers), None
    names = [printable(letters.get(i, str(i))[:MAX_LETTER]) for i in range(n_classes)]
    unnamed = frozenset(range(n_classes)) - letters.keys()
    return {"names": names, "blank": blank, "unnamed": unnamed, "decode": decode}


def _tokenizer(folder: Path, n_classes: int, transformers: Any) -> Any:
    """Return the tokenizer of a folder.

    None unless it writes a short text for any class, and a repeated class once (CTC).
    """
    if not (folder / TOKENIZER_SETTINGS).is_file():
        return None
    try:
        library = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        if len(library) <= len(set(library.all_special_ids)):
            return None
        for i in range(n_classes):
            text = library.decode([i, (i + 1) % n_classes, i])
            if len(text) > MAX_SPELLED or library.decode([i, i]) != library.decode([i]):
                return None
    except Exception:  # the library may raise anything on a tokenizer's files
        return None
    return library


def _letters(folder: Path, transformers: Any) -> dict[int, str]:
    """Return the letter of each class: that of vocab.json, or else the token of tokenizer.json."""
    if (folder / VOCABULARY).is_file():
        content = json.loads((folder / VOCABULARY).read_text("utf-8"))
        pairs = content.items() if isinstance(content, dict) else ()
        return {i: str(name) for name, i in pairs if isinstance(i, int)}
    if not (folder / TOKENIZER).is_file():
        return {}
    library = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / TOKENIZER))
    return {i: name for name, i in library.get_vocab().items()}
