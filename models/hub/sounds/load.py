"""Open the folder of a speech-to-text model: its frames and its text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from models.architectures.base import BY_VECTORS
from models.errors import CheckpointError, first_line
from models.hub import confirm, probe, probe_cache
from models.hub.generation import generation_settings
from models.hub.layouts import layer_maps
from models.hub.positions import table_looked_up
from models.hub.python_tokenizer import PythonTokenizer
from models.hub.sizes import HubConfig
from models.hub.sounds.frames import SoundFrames, check_unpadded, measured_frames
from models.hub.sounds.layout import sound_frames
from models.hub.sounds.model import SpeechToText
from models.hub.sounds.processor import (
    FrameReader,
    SoundHubTokenizer,
    SoundIdTokenizer,
    SoundProcessor,
    SoundPythonTokenizer,
)
from models.hub.sounds.prompt import speech_prompt
from models.hub.tokenizer import HubTokenizer, IdTokenizer
from models.sounds import decoded_sound, example_sound
from models.tokenizers.base import Tokenizer

_SOUND_TOKENIZERS = {
    HubTokenizer: SoundHubTokenizer,
    PythonTokenizer: SoundPythonTokenizer,
    IdTokenizer: SoundIdTokenizer,
}


def opened_sound(
    folder: Path, module: Any, sizes: HubConfig, make: Callable[..., Any], transformers: Any
) -> tuple[SpeechToText, Tokenizer]:
    """Wrap a module as a speech-to-text model.

    `make` builds the tokenizer, given the mapping from a class of tokenizer to the one that reads
    sounds, too. Raises CheckpointError, with the reason, for a model that cannot be shown.
    """
    processor = SoundProcessor(folder, transformers)
    trial = processor.features(decoded_sound(example_sound()))
    reads, encoder = processor.reads, module.get_encoder()
    sound = {reads: trial[None].to(module.device, module.dtype)}
    _check_runs(module, sound, sizes)
    frames = _frames(encoder, processor, trial, sound)
    tokenizer = make(_SOUND_TOKENIZERS)
    tokenizer.reader = FrameReader(processor, frames.count, frames.step)
    text_limit = _text_limit(module, sizes)
    model = SpeechToText(
        module,
        replace(sizes, n_ctx=max(frames.longest, text_limit)),
        reads=reads,
        frames=frames,
        trial=trial,
        prompt=speech_prompt(module, sizes.vocab_size),
        text_limit=text_limit,
    )
    if sizes.start_id < 0:
        raise CheckpointError("its files do not name the token that its texts begin with")
    n_given = 1 + len(model.prompt.tokens)
    model.generation, model.not_applied = generation_settings(
        module, model.end_ids, continues=False, n_given=n_given
    )
    probe.check_recorded(model)
    probe.check_two_steps(model, reads)
    probe_cache.choose_cache(model)
    confirm.choose_layer_map(model, layer_maps(module))
    table = table_looked_up(model, frames.count(trial), frames.longest, **{reads: model.trial})
    if table is not None:
        model.positions, model.order_source = table, BY_VECTORS
        model.config = replace(model.config, positions="learned" if table.is_learned else "fixed")
    return model, tokenizer


def _frames(
    encoder: Any, processor: SoundProcessor, trial: Tensor, sound: dict[str, Tensor]
) -> SoundFrames:
    """Return the frames that an encoder makes. Raises CheckpointError."""
    if trial.dim() == 1 or processor.rows is not None:
        frames = measured_frames(encoder, processor)
        check_unpadded(encoder, processor)
        return frames
    n_frames, step = sound_frames(encoder, sound[processor.reads])
    seconds = step * processor.max_seconds / trial.shape[-1]
    return SoundFrames(lambda features: n_frames, seconds, n_frames)


@torch.no_grad()
def _check_runs(module: nn.Module, sound: dict[str, Tensor], sizes: HubConfig) -> None:
    ids = torch.tensor([[max(0, sizes.start_id)]], device=next(iter(sound.values())).device)
    try:
        module(**sound, decoder_input_ids=ids)
    except Exception as error:  # the library may raise anything
        raise CheckpointError(f"it does not run on a sound ({first_line(error)})") from None


def _text_limit(module: Any, sizes: HubConfig) -> int:
    """Return the longest text of the decoder, in tokens."""
    limit = getattr(module.config, "max_target_positions", None)
    return min(limit, sizes.n_ctx) if isinstance(limit, int) and limit > 1 else sizes.n_ctx
