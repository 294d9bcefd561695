"""Jacobian reach in a sentence: ‖∂y_i/∂x_j‖ of each kind of layer at the model's embedded tokens.

A layer is the model's own, or newly initialised.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from models.analysis import jacobian_norms
from models.analysis.sequence_layers import (
    BACKWARD,
    FORWARD,
    Convolutional,
    Layer,
    Recurrent,
    SelfAttention,
)
from models.architectures import Model, seq2seq
from models.layers.attention import MultiHeadAttention
from models.layers.blocks import Stack
from models.trace import Recording, record

RNN, BIDIRECTIONAL, CNN, SELF_ATTENTION = LAYER_KINDS = (
    "RNN",
    "bidirectional RNN",
    "CNN",
    "self-attention",
)
DIRECTIONS = {RNN: (FORWARD,), BIDIRECTIONAL: (FORWARD, BACKWARD)}
D_NEW = 64  # outputs of a new RNN, in each direction, and of a new CNN
N_CHECKED = 3  # tokens that also go through plain autograd, which is slow for more


@dataclass(frozen=True)
class LayerChoice:
    """A kind of LAYER_KINDS, the model's own (`seed` None) or new; width and depth of a CNN."""

    kind: str
    seed: int | None = None
    width: int = 3
    depth: int = 3


@dataclass(frozen=True)
class Reach:
    """One layer over one sentence.

    `norms[i, j]` is ‖∂y_i/∂x_j‖, `steps[i, j]` the least number of steps from x_j to y_i (0 = no
    path), and `schedule` the positions that each sequential step computes. The gaps are largest
    differences relative to the largest value: of y from the model's own pass, and of the first
    tokens' norms from plain autograd.
    """

    choice: LayerChoice
    norms: Float[Tensor, "n n"]
    reaches: Bool[Tensor, "n n"]
    steps: Int[Tensor, "n n"]
    schedule: list[list[int]]
    d_in: int
    d_out: int
    output_gap: float
    autograd_gap: float
    positioned: bool = False  # True if x includes position vectors

    @property
    def leak(self) -> float:
        """Largest norm outside the layer's reach, which must be 0."""
        outside = self.norms[~self.reaches]
        return float(outside.max()) if outside.numel() else 0.0

    def norms_by_distance(self) -> list[tuple[int, float, int]]:
        """Return jacobian_norms.norms_by_distance over the pairs within reach."""
        return jacobian_norms.norms_by_distance(self.norms, self.reaches)

    def by_offset(self) -> list[tuple[int, float, int]]:
        """Return jacobian_norms.by_offset over the pairs within reach."""
        return jacobian_norms.by_offset(self.norms, self.reaches)


def has_layer(model: Model, kind: str) -> bool:
    """Return True if the model's encoder has a trained layer of this kind."""
    if model.is_recurrent:
        return kind == RNN or (kind == BIDIRECTIONAL and model.config.bidirectional)
    return kind == SELF_ATTENTION and any(
        (kind.stack, kind.role) == ("encoder", "self") for kind in model.kinds
    )


def layer_reach(
    model: Model, ids: tuple[int, ...], choice: LayerChoice, *, gap: float | None = None
) -> Reach:
    """Return the reach of the layer at the encoder's embeddings of these source tokens.

    A model's own self-attention is that of its first encoder layer, at that layer's input. `gap` is
    the `autograd_gap` of this layer at these tokens, if already known.

    Raises:
        ValueError: The model has no such layer, or a CNN is impossible.
    """
    layer, x, reference = _layer(model, ids, choice)
    with torch.no_grad():
        y, norms, n = layer(x), jacobian_norms.norms(layer, x), len(x)
    return Reach(
        choice,
        norms,
        layer.reaches(n),
        layer.steps(n),
        layer.schedule(n),
        x.shape[1],
        y.shape[1],
        0.0 if reference is None else _gap(y, reference),
        autograd_gap(model, ids, choice) if gap is None else gap,
        choice.kind == SELF_ATTENTION and choice.seed is None and model.config.positions != "none",
    )


def autograd_gap(model: Model, ids: tuple[int, ...], choice: LayerChoice) -> float:
    """Return the largest relative difference of one row of norms between both routes.

    Only the first N_CHECKED tokens are used.

    Raises:
        ValueError: As for `layer_reach`.
    """
    layer, x, _ = _layer(model, ids[:N_CHECKED], choice)
    i = len(x) // 2
    with torch.no_grad():
        norms = jacobian_norms.norms(layer, x)[i]
    return _gap(norms, jacobian_norms.by_autograd(layer, x, i))


def _layer(
    model: Model, ids: tuple[int, ...], choice: LayerChoice
) -> tuple[Layer, Tensor, Tensor | None]:
    """Return the layer, its input, and the output of the model's pass or torch's module, if any."""
    if choice.kind not in LAYER_KINDS:
        raise ValueError(f"kind must be one of {', '.join(LAYER_KINDS)}, not {choice.kind!r}")
    if choice.seed is None and not has_layer(model, choice.kind):
        raise ValueError(f"this model has no trained {choice.kind} in its encoder")
    recording = _record_encoder(model, ids)
    x = recording.activations["encoder.embedding"].value[0].to("cpu", torch.float32)
    if choice.kind == CNN:
        seed = cast(int, choice.seed)  # no model has a trained one
        return Convolutional.random(x.shape[1], D_NEW, choice.width, choice.depth, seed), x, None
    if choice.kind == SELF_ATTENTION:
        return _self_attention(model, recording, x, choice.seed)
    layer, reference = _recurrent(model, recording, x, choice)
    return layer, x, reference


def _record_encoder(model: Model, ids: tuple[int, ...]) -> Recording:
    """Return a recording of the encoder reading these tokens."""
    source = torch.tensor([ids], device=next(model.parameters()).device)
    with torch.no_grad(), record() as recording:
        model.encode(source, model.masks(source, source))
    return recording


def _recurrent(
    model: Model, recording: Recording, x: Tensor, choice: LayerChoice
) -> tuple[Recurrent, Tensor]:
    """Return the recurrence, and the states of the model's own pass or of torch's module."""
    names = DIRECTIONS[choice.kind]
    if choice.seed is None:
        layer = Recurrent.of(cast(seq2seq.Encoder, model.encoder).recurrence, *names)
        d_out = model.config.d_hidden * len(names)
        return layer, recording.activations["encoder.states"].value[0, :, :d_out].to(
            "cpu", torch.float32
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(choice.seed)
        module = nn.RNN(x.shape[1], D_NEW, bidirectional=choice.kind == BIDIRECTIONAL)
    with torch.no_grad():
        return Recurrent.of(module, *names), module(x)[0]


def _self_attention(
    model: Model, recording: Recording, x: Tensor, seed: int | None
) -> tuple[SelfAttention, Tensor, Tensor | None]:
    """Return the layer, its input, and its output in the model's pass if it is the model's."""
    if seed is not None:
        return SelfAttention.random(x.shape[1], seed), x, None
    first = cast(MultiHeadAttention, cast(Stack, model.encoder).layers[0].self_attn)
    layer_output = recording.activations[f"{first.path}.attn_out"].value[0].to("cpu", torch.float32)
    layer_input = recording.attention[first.path].x[0].to("cpu", torch.float32)
    return SelfAttention(_on_cpu(first)), layer_input, layer_output


def _on_cpu(module: MultiHeadAttention) -> MultiHeadAttention:
    """Return the module itself if on the CPU, else a copy: a shared model is never modified."""
    return module if next(module.parameters()).device.type == "cpu" else deepcopy(module).cpu()


def _gap(values: Tensor, reference: Tensor) -> float:
    return float((values - reference).abs().max() / reference.abs().max().clamp(min=1e-30))
