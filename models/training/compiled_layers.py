"""Layers that torch compiles for training on a GPU: each kind once, however many there are.

The rest of the model runs uncompiled, and so does all of it while it is recorded, edited or
validated (models.trace.compiled).
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.layers.blocks import CrossLayer, SelfLayer, Stack
from models.layers.masks import Mask
from models.layers.similarity import LearnedSimilarity, fused_attention

MIN_COMPILED_STEPS = 5000  # of a run: compiling takes half a minute, and saves some 20 ms a step
MIN_COMPILED_WIDTH = 512  # of a model: a narrower one waits for the host, not for the GPU
# A fused kernel computes tiles of 64 × 128 cells, however few a row has. Smaller tiles pay for
# rows up to SHORT in batches from LARGE on: they cost the host more.
SHORT, LARGE = 48, 40_000  # tokens
HEAD_SIZES = (16, 32, 64, 128)  # that flex_attention takes in any version of torch
TILES = ("BLOCK_M", "BLOCK_N", "BLOCK_M1", "BLOCK_N1", "BLOCK_M2", "BLOCK_N2")


def compiling_pays(width: int, steps: int, device: torch.device) -> bool:
    """Return True if the run is long enough and the model wide enough to gain from it."""
    return device.type == "cuda" and steps >= MIN_COMPILED_STEPS and width >= MIN_COMPILED_WIDTH


def compile_layers(model: nn.Module, backend: str = "inductor") -> None:
    """Compile the model's layers in place, when they are first called, for batches of any shape."""
    kernel = _small_tiles()
    for module in model.modules():
        if isinstance(module, Stack):
            module.register_forward_pre_hook(_combine_masks)
        elif isinstance(module, (SelfLayer, CrossLayer)):
            options = {"guard_filter_fn": _without_paths}
            module.compile(backend=backend, dynamic=True, options=options)
        elif isinstance(module, LearnedSimilarity):
            module.kernel = kernel


def _without_paths(guards: Sequence[Any]) -> list[bool]:
    """Keep all conditions for running compiled code except the module's path, which names records.

    Otherwise each layer would be compiled by itself.
    """
    return [not guard.name.endswith(".path") for guard in guards]


def _combine_masks(stack: nn.Module, inputs: tuple[Any, ...]) -> None:
    """Compute what all layers of a stack share, which depends on the tokens, before they run.

    It is not checked whether a mask blocks anything: the answer would have to wait for the pending
    work of the GPU.
    """
    for mask in inputs:
        if isinstance(mask, Mask):
            mask.blocking = mask.allowed
            mask.additive(torch.float32)


def _small_tiles() -> Callable[..., Tensor]:
    """Return a `fused_attention` that, compiled, takes short rows in smaller tiles."""
    from torch.nn.attention.flex_attention import flex_attention  # not before it is needed

    def attend(
        q: Float[Tensor, "batch head query d_head"],
        k: Float[Tensor, "batch head key d_head"],
        v: Float[Tensor, "batch head key d_v"],
        mask: Mask,
        scale: float | None,
    ) -> Float[Tensor, "batch head query d_v"]:
        n_batch, n_query, n_key, allowed = q.shape[0], q.shape[2], k.shape[2], mask.blocking
        pays = max(n_query, n_key) <= SHORT and n_batch * n_query >= LARGE
        is_possible = torch.compiler.is_compiling() and q.is_cuda and q.shape[3] in HEAD_SIZES
        if allowed is None or not (pays and is_possible):
            return fused_attention(q, k, v, mask, scale)
        cells = allowed.expand(n_batch, 1, n_query, n_key)

        def masked(score: Tensor, b: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return torch.where(cells[b, 0, query, key], score, -torch.inf)

        options: Any = dict.fromkeys(TILES, 32) | {"num_warps": 2, "num_stages": 1}
        return flex_attention(q, k, v, score_mod=masked, scale=scale, kernel_options=options)

    return attend
