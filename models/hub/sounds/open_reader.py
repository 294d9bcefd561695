"""The folder of a model that reads a sound in one pass, opened: its frames or patches."""

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
from models.errors import CheckpointError, InputError, first_line
from models.hub import confirm, probe
from models.hub.images.positions import added_positions
from models.hub.labels import label_names
from models.hub.layouts import layer_maps
from models.hub.positions import told_of_equal
from models.hub.sizes import MAX_HUB_TOKENS, encoder_sizes
from models.hub.sounds.columns import spectrogram_columns
from models.hub.sounds.layout import sound_frames, spectrogram_grid
from models.hub.sounds.processor import (
    FrameReader,
    FrameTokenizer,
    SoundProcessor,
)
from models.hub.sounds.reader import SoundClassifier, SoundReader, SoundSpeller
from models.hub.sounds.spectrogram import PatchReader, SpectrogramClassifier
from models.printable import printable
from models.sounds import decoded_sound, example_sound

NO_SOUND_ATTENTION = "no attention between the parts of a sound was seen in a run, so there is nothing that could be shown"
VOCABULARY = "vocab.json"
MAX_LETTER = 20  # characters of the name of a class


def opened_reader(
    folder: Path, kind: type[SoundReader], module: Any, config: Any, transformers: Any
) -> tuple[SoundReader, FrameTokenizer]:
    """Return a module as a model that reads a sound in one pass.

    Raises CheckpointError, with the reason, for a model that cannot be shown.
    """
    processor = SoundProcessor(folder, transformers)
    trial = processor.features(decoded_sound(example_sound()))
    names = label_names(config)
    if issubclass(kind, SoundClassifier) and trial.dim() == 2 and _column_encoder(module) is None:
        return _opened_patches(module, processor, trial, names)
    count, step = _frames(module, processor, trial)
    longest = count(trial if trial.dim() == 2 else trial.new_zeros(_longest(processor)))
    if longest > MAX_HUB_TOKENS:
        raise CheckpointError(f"it makes {longest:,} frames of {processor.longest:g} s of sound")
    sizes = encoder_sizes(type(module).__name__, module, longest, False)
    about: dict[str, Any] = {"names": names}
    if issubclass(kind, SoundSpeller):
        about = {"names": _letters(folder, config), "blank": getattr(config, "pad_token_id", -1)}
    model = kind(module, sizes, reads=processor.reads, count_frames=count, trial=trial, **about)
    _check_reader(model)
    return model, FrameTokenizer(FrameReader(processor, count, step), longest)


def _opened_patches(
    module: Any, processor: SoundProcessor, trial: Float[Tensor, "a b"], names: list[str]
) -> tuple[SpectrogramClassifier, FrameTokenizer]:
    """Return a module as a classifier of the patches of a spectrogram. Raises CheckpointError."""
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
    model.seen_order = told_of_equal(model, (torch.ones_like(features),), patches)
    if (table := added_positions(module, **{processor.reads: features})) is not None:
        model.positions, model.seen_order = table, BY_VECTORS
        model.config = replace(sizes, positions="learned")
    return model, FrameTokenizer(PatchReader(processor, grid, columns), n)


def _check_reader(model: SoundReader) -> None:
    """Raise CheckpointError unless a run shows attention; keep where its layers are."""
    with _on_sound_alone():
        probe.check_trial(model, NO_SOUND_ATTENTION)
    confirm.record_layers(model, layer_maps(model.module))


@contextmanager
def _on_sound_alone() -> Iterator[None]:
    """Turn any error of a run into a CheckpointError."""
    try:
        yield
    except (CheckpointError, InputError) as error:
        raise CheckpointError(str(error)) from None
    except Exception as error:  # the library raises what it likes
        raise CheckpointError(f"it does not run on a sound alone ({first_line(error)})") from None


def _column_encoder(module: Any) -> nn.Module | None:
    """Return the encoder of a module that reads the columns of a spectrogram, if it has one."""
    encoder = getattr(module, "encoder", None)
    return encoder if isinstance(encoder, nn.Module) else None


def _frames(
    module: Any, processor: SoundProcessor, trial: Float[Tensor, "*shape"]
) -> tuple[Callable[[Tensor], int], float]:
    """Return what counts the frames of features, and the seconds between two.

    Raises CheckpointError if they do not go on by equal steps.
    """
    if trial.dim() == 2:
        features = trial[None].to(module.device, module.dtype)
        encoder = _column_encoder(module)
        if encoder is None:
            raise CheckpointError("it reads a spectrogram, but has no encoder of its columns")
        n_frames, step = sound_frames(encoder, features)
        return lambda features: n_frames, step * processor.longest / trial.shape[-1]
    lengths = getattr(module, "_get_feat_extract_output_lengths", None)
    samples = getattr(module.config, "inputs_to_logits_ratio", None)
    if lengths is None or not isinstance(samples, int) or samples < 16:
        raise CheckpointError("it does not say how many frames it makes of a waveform")

    def count(features: Float[Tensor, " sample"]) -> int:
        return int(lengths(torch.tensor(len(features))))

    more = count(trial[: len(trial) - 10 * samples])
    if count(trial) - more != 10:
        raise CheckpointError("its frames are not a row of equal steps through the sound")
    return count, samples / processor.rate


def _longest(processor: SoundProcessor) -> int:
    """Return the samples of the longest sound."""
    return round(processor.longest * processor.rate)


def _letters(folder: Path, config: Any) -> list[str]:
    """Return the name of each class: its letter in vocab.json, or else its number."""
    path, names = folder / VOCABULARY, {}
    if path.is_file():
        content = json.loads(path.read_text("utf-8"))
        if isinstance(content, dict):
            names = {i: str(name)[:MAX_LETTER] for name, i in content.items() if isinstance(i, int)}
    return [printable(names.get(i, str(i))) for i in range(config.vocab_size)]
