"""Layers that torch compiles for training on a GPU: each kind once, however many there are.

The rest of the model runs as it is written, and so does all of it while it is recorded, edited or
validated (models.trace.compiled).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from models.layers.blocks import CrossLayer, SelfLayer, Stack
from models.layers.masks import Mask

LEAST_STEPS = 5000  # of a run: compiling takes half a minute, and saves some 20 ms a step
LEAST_WIDTH = 512  # of a model: a narrower one waits for the host, not for the GPU


def compiling_pays(width: int, steps: int, device: torch.device) -> bool:
    """Return True if the run is long enough and the model wide enough to gain from it."""
    return device.type == "cuda" and steps >= LEAST_STEPS and width >= LEAST_WIDTH


def compile_layers(model: nn.Module, backend: str = "inductor") -> None:
    """Compile the model's layers in place, when they are first called, for batches of any shape."""
    for module in model.modules():
        if isinstance(module, Stack):
            module.register_forward_pre_hook(_combine_masks)
        elif isinstance(module, (SelfLayer, CrossLayer)):
            options = {"guard_filter_fn": _but_paths}
            module.compile(backend=backend, dynamic=True, options=options)


def _but_paths(guards: Sequence[Any]) -> list[bool]:
    """Keep all conditions for running compiled code but the module's path, which names a record.

    Otherwise each layer would be compiled by itself.
    """
    return [not guard.name.endswith(".path") for guard in guards]


def _combine_masks(stack: nn.Module, inputs: tuple[Any, ...]) -> None:
    """Work out what all layers of a stack share, which depends on the tokens, before they run."""
    for mask in inputs:
        if isinstance(mask, Mask):
            mask.additive(torch.float32)
