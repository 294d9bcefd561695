"""The shuffle test: is the encoder's output the same when its input tokens change places?

Self-attention alone is permutation equivariant (Vaswani et al. 2017, §3.5): without position vectors, shuffled tokens
give the same vectors, shuffled. With them, each vector changes, and by how much can be measured layer by layer.
"""

import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from models import masks
from models.masks import Mask
from models.positions import Positions
from models.trace import record
from models.transformer import Transformer

ORDERS = ("shuffled", "reversed", "two swapped")


def without_positions(model: Transformer) -> Transformer:
    """A second model that shares every weight with the first but has zero position vectors. Nothing is written onto
    the first (torch.func.functional_call would, while it runs, and other threads would see it)."""
    config = replace(model.config, positions="none")
    bare = copy.copy(model)
    zero = Positions("none", config.n_ctx, config.d_model).to(model.embedding.weight)
    object.__setattr__(bare, "_modules", {**model._modules, "positions": zero})
    bare.config = config
    return bare


def new_order(n: int, how: str, seed: int = 0) -> tuple[int, ...]:
    """Which of n tokens stands at each place. The last one, </s>, keeps its place: it marks the end and is no word.

    "shuffled" draws an order other than the original (where there is one), "two swapped" exchanges two neighbours in
    the middle. Raises ValueError for another name."""
    if how not in ORDERS:
        raise ValueError(f"the order must be one of {', '.join(ORDERS)}, not {how!r}")
    places = list(range(n - 1))
    if how == "reversed":
        places.reverse()
    elif len(places) > 1 and how == "two swapped":
        middle = (len(places) - 1) // 2
        places[middle : middle + 2] = places[middle + 1], places[middle]
    elif len(places) > 1:
        rng = random.Random(seed)
        while places == list(range(n - 1)):
            rng.shuffle(places)
    return (*places, n - 1)


@dataclass(frozen=True)
class ShuffleTest:
    """One encoder run on a text and on its reordered tokens, the second put back into the first's order.

    Stages: the encoder's input, each layer's output, and under pre-LN the output of the last LayerNorm."""

    order: tuple[int, ...]
    stages: tuple[str, ...]
    original: Float[Tensor, "stage n d_model"]
    put_back: Float[Tensor, "stage n d_model"]

    @property
    def change(self) -> Float[Tensor, "stage n"]:
        """How far each token's vector has moved, as a share of its length; √2 is a right angle at equal lengths."""
        return (self.put_back - self.original).norm(dim=-1) / self.original.norm(dim=-1)

    @property
    def largest(self) -> Float[Tensor, "stage"]:
        """The largest change at each stage."""
        return self.change.amax(1)

    @property
    def mean(self) -> Float[Tensor, "stage"]:
        """The mean change over the tokens at each stage."""
        return self.change.mean(1)


@torch.inference_mode()
def shuffle_test(model: Transformer, source: Sequence[int], order: Sequence[int]) -> ShuffleTest:
    """Encode `source` (token ids, </s> last) as it is and with token order[i] at place i. Without
    positions: give it `without_positions(model)`. Raises ValueError if `order` does not name each place once."""
    if sorted(order) != list(range(len(source))):
        raise ValueError(f"the order must name each of the {len(source)} places once, not {tuple(order)}")
    ids = torch.tensor([list(source), [source[i] for i in order]], device=model.embedding.weight.device)
    with record() as recording:
        output = model.encode(ids, Mask([masks.padding(ids, model.config.pad_id)]))
    layers = range(model.config.n_encoder_layers)
    values = [recording.activations["encoder.layers.0.resid_pre"].value]
    values += [recording.activations[f"encoder.layers.{i}.resid_post"].value for i in layers]
    stages = ["input", *(f"layer {i + 1}" for i in layers)]
    if model.config.norm == "pre":
        values, stages = [*values, output], [*stages, "last LayerNorm"]
    states = torch.stack(values).float().cpu()                           # (stage, 2, n, d_model)
    back = torch.tensor(order).argsort()
    return ShuffleTest(tuple(order), tuple(stages), states[:, 0], states[:, 1][:, back])
