"""The frames of a model whose input is as long as its sound, and the answers of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.analysis.checks import rounding_in
from models.errors import CheckpointError
from models.hub.sizes import MAX_HUB_TOKENS
from models.hub.sounds.processor import SoundProcessor
from models.hub.sounds.steps import token_steps
from models.sounds import Waveform, decoded_sound, example_sound

TRIED_SECONDS = 2.0  # of a sound in which frames are measured
PADDING_READ = "its answer changes with the padding that its feature extractor puts after a sound"


@dataclass(frozen=True)
class SoundFrames:
    """Frames that begin `step` seconds apart; `count` gives their number for a model's input."""

    count: Callable[[Tensor], int]
    step: float
    longest: int  # of the longest sound


def measured_frames(module: Any, processor: SoundProcessor) -> SoundFrames:
    """Return the frames that a module makes from an input that is as long as its sound.

    They are measured with noise, in which every part matters.

    Raises:
        CheckpointError: they are not equal steps through the sound, or too many.
    """
    n_samples = round(TRIED_SECONDS * processor.rate)
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, n_samples).astype(np.float32)
    features = processor.features(Waveform(noise, processor.rate))
    steps, rows = token_steps(module, processor.reads, features), processor.rows
    n = round(processor.max_seconds * processor.rate)
    longest = steps.count(n if rows is None else rows.steps.count(n))
    if longest > MAX_HUB_TOKENS:
        raise CheckpointError(
            f"it makes {longest:,} frames of {processor.max_seconds:g} s of sound"
        )
    step = steps.step * (1 if rows is None else rows.steps.step)
    return SoundFrames(lambda features: steps.count(len(features)), step / processor.rate, longest)


@torch.no_grad()
def check_unpadded(module: Any, processor: SoundProcessor) -> None:
    """Raise CheckpointError if masked padding after a sound changes its answer.

    Attnscope runs models without that padding.
    """
    if processor.rows is None:
        return
    sound, step = decoded_sound(example_sound()).at(processor.rate), processor.rows.steps.step
    for n_off in range(0, step, -(-step // 4)):
        shorter = Waveform(sound.samples[: len(sound.samples) - n_off], sound.rate)
        padded, features = processor.inputs(shorter), processor.features(shorter)
        if padded[processor.reads].shape[1] == len(features):
            continue
        theirs, own = (
            _first_tensor(module(**{name: _move(t, module) for name, t in inputs.items()}))
            for inputs in (padded, {processor.reads: features[None]})
        )
        apart = float((theirs[:, : own.shape[1]] - own).abs().max())
        if apart > rounding_in(module.dtype) * max(1.0, float(own.abs().max())):
            raise CheckpointError(PADDING_READ)
        return


def _move(t: Tensor, module: Any) -> Tensor:
    return t.to(module.device, module.dtype) if t.is_floating_point() else t.to(module.device)


def _first_tensor(output: Any) -> Tensor:
    return next(t for t in output.values() if isinstance(t, Tensor))


def answers_per_frame(
    module: nn.Module, inputs: dict[str, Float[Tensor, "1 place *number"]], n_frames: int
) -> int:
    """Return the number of answers that are read from the last vector of each frame, in order.

    Answers after the last frame are read from no frame.

    Raises:
        CheckpointError: an answer is read from other frames.
    """
    vectors: list[Tensor] = []

    def keep(part: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if isinstance(output, Tensor) and output.dim() == 3 and output.shape[:2] == (1, n_frames):
            vectors.append(output)

    hooks = [part.register_forward_hook(keep) for part in module.modules()]
    try:
        with torch.enable_grad():
            whole = {name: t.detach().clone().requires_grad_() for name, t in inputs.items()}
            logits = module(**whole).logits[0]
            if len(logits) == n_frames:
                return 1
            per_frame = len(logits) // n_frames
            read = [_frames_read(row, vectors[-1]) for row in logits] if vectors else []
    finally:
        for hook in hooks:
            hook.remove()
    own = [[i // max(1, per_frame)] * (i < per_frame * n_frames) for i in range(len(logits))]
    if not any(read) or any(one not in ([], wanted) for one, wanted in zip(read, own, strict=True)):
        raise CheckpointError(
            f"it makes {len(logits):,} answers from {n_frames:,} frames, and it is unknown which frames each is read from"
        )
    return per_frame


def _frames_read(answer: Float[Tensor, " logit"], vectors: Float[Tensor, "1 n feature"]) -> list:
    """Return the frames whose vectors an answer depends on, by the gradient."""
    weights = torch.linspace(0.5, 1.5, len(answer), dtype=answer.dtype, device=answer.device)
    (gradient,) = torch.autograd.grad(
        (answer * weights).sum(), vectors, retain_graph=True, allow_unused=True
    )
    return [] if gradient is None else gradient[0].abs().sum(-1).nonzero().flatten().tolist()
