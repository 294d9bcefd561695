"""What can reach what in a sentence: ‖∂y_i/∂x_j‖ of each kind of layer, as a model holds it or newly initialised, at the
model's own embedded tokens."""

from copy import deepcopy
from dataclasses import dataclass

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
from models.architectures import Model
from models.trace import Recording, record

RNN, BIDIRECTIONAL, CNN, SELF_ATTENTION = LAYER_KINDS = (
    "RNN",
    "bidirectional RNN",
    "CNN",
    "self-attention",
)
DIRECTIONS = {RNN: (FORWARD,), BIDIRECTIONAL: (FORWARD, BACKWARD)}
D_NEW = 64  # outputs of a newly initialised RNN, in each direction, and of a CNN
CHECKED = 3  # so many tokens go through plain autograd too, which takes long for more


@dataclass(frozen=True)
class Choice:
    """Which layer: a kind of LAYER_KINDS, the model's own (`seed` None) or one newly initialised; width and depth of a CNN."""

    kind: str
    seed: int | None = None
    width: int = 3
    depth: int = 3


@dataclass(frozen=True)
class Reach:
    """One layer over one sentence. `norms[i, j]` = ‖∂y_i/∂x_j‖; `steps[i, j]` the least number of steps from x_j to y_i,
    0 = no way; `schedule` the positions each sequential step computes; the gaps are largest differences, relative to the
    largest value: of y from what the model's own pass made of it, and of the first tokens' norms from plain autograd."""

    choice: Choice
    norms: Float[Tensor, "n n"]
    reaches: Bool[Tensor, "n n"]
    steps: Int[Tensor, "n n"]
    schedule: list[list[int]]
    d_in: int
    d_out: int
    output_gap: float
    autograd_gap: float
    positioned: bool = False  # whether position vectors are in x

    @property
    def leak(self) -> float:
        """The largest norm where the layer cannot reach, which must be 0."""
        outside = self.norms[~self.reaches]
        return float(outside.max()) if outside.numel() else 0.0

    def norms_by_distance(self) -> list[tuple[int, float, int]]:
        """jacobian_norms.norms_by_distance over the pairs that can reach each other."""
        return jacobian_norms.norms_by_distance(self.norms, self.reaches)

    def by_offset(self) -> list[tuple[int, float, int]]:
        """jacobian_norms.by_offset over the pairs that can reach each other."""
        return jacobian_norms.by_offset(self.norms, self.reaches)


def has_layer(model: Model, kind: str) -> bool:
    """Whether the model has a trained layer of this kind in its encoder."""
    if model.is_recurrent:
        return kind == RNN or (kind == BIDIRECTIONAL and model.config.bidirectional)
    return kind == SELF_ATTENTION and any(
        (kind.stack, kind.role) == ("encoder", "self") for kind in model.kinds
    )


def reach(model: Model, ids: tuple[int, ...], choice: Choice, *, gap: float | None = None) -> Reach:
    """The layer at the encoder's embeddings of these source tokens. A model's own self-attention is that of its first
    encoder layer, at what enters it. `gap` is the `autograd_gap` of this layer at these tokens, if it is known already.

    Raises ValueError for a layer the model does not hold, and for an impossible CNN."""
    layer, x, again = _layer(model, ids, choice)
    with torch.no_grad():
        y, found, n = layer(x), jacobian_norms.norms(layer, x), len(x)
    return Reach(
        choice,
        found,
        layer.reaches(n),
        layer.steps(n),
        layer.schedule(n),
        x.shape[1],
        y.shape[1],
        0.0 if again is None else _gap(y, again),
        autograd_gap(model, ids, choice) if gap is None else gap,
        choice.kind == SELF_ATTENTION and choice.seed is None and model.config.positions != "none",
    )


def autograd_gap(model: Model, ids: tuple[int, ...], choice: Choice) -> float:
    """The first CHECKED tokens taken alone, the norms of one row by both routes: their largest difference, relative to the
    largest norm. The other tokens do not matter to it. Raises what `reach` raises."""
    layer, x, _ = _layer(model, ids[:CHECKED], choice)
    i = len(x) // 2
    with torch.no_grad():
        found = jacobian_norms.norms(layer, x)[i]
    return _gap(found, jacobian_norms.by_autograd(layer, x, i))


def _layer(
    model: Model, ids: tuple[int, ...], choice: Choice
) -> tuple[Layer, Tensor, Tensor | None]:
    """The layer, what it reads, and what the model's own pass or torch's own module makes of that, if there is one."""
    if choice.kind not in LAYER_KINDS:
        raise ValueError(f"kind must be one of {', '.join(LAYER_KINDS)}, not {choice.kind!r}")
    if choice.seed is None and not has_layer(model, choice.kind):
        raise ValueError(f"this model has no trained {choice.kind} in its encoder")
    recording = _encoded(model, ids)
    x = recording.activations["encoder.embedding"].value[0].to("cpu", torch.float32)
    if choice.kind == CNN:
        return (
            Convolutional.random(x.shape[1], D_NEW, choice.width, choice.depth, choice.seed),
            x,
            None,
        )
    if choice.kind == SELF_ATTENTION:
        return _self_attention(model, recording, x, choice.seed)
    layer, again = _recurrent(model, recording, x, choice)
    return layer, x, again


def _encoded(model: Model, ids: tuple[int, ...]) -> Recording:
    """What the encoder marks when it reads these tokens."""
    source = torch.tensor([ids], device=next(model.parameters()).device)
    with torch.no_grad(), record() as recording:
        model.encode(source, model.masks(source, source))
    return recording


def _recurrent(
    model: Model, recording: Recording, x: Tensor, choice: Choice
) -> tuple[Recurrent, Tensor]:
    """The recurrence, and the states that torch's own module makes: those of the model's pass, if it is the model's."""
    names = DIRECTIONS[choice.kind]
    if choice.seed is None:
        layer = Recurrent.of(model.encoder.recurrence, *names)
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
    """The layer, what enters it, and what left it in the model's pass, if it is the model's."""
    if seed is not None:
        return SelfAttention.random(x.shape[1], seed), x, None
    first = model.encoder.layers[0].self_attn
    left = recording.activations[f"{first.path}.attn_out"].value[0].to("cpu", torch.float32)
    entered = recording.attention[first.path].x[0].to("cpu", torch.float32)
    return SelfAttention(_on_cpu(first)), entered, left


def _on_cpu(module: nn.Module) -> nn.Module:
    """The module itself if it is there already, else a copy: nothing is written onto a shared model."""
    return module if next(module.parameters()).device.type == "cpu" else deepcopy(module).cpu()


def _gap(found: Tensor, again: Tensor) -> float:
    return float((found - again).abs().max() / again.abs().max().clamp(min=1e-30))
