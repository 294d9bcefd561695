"""What decoding works out of weights before it begins, made once for as long as they stay as they are, and not in every run."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from models.layers.cache import Cache

_kept = (
    WeakTensorKeyDictionary()
)  # the first weight → name → what the weights were like, and what was made of them


def kept(
    name: str, weights: Sequence[Tensor], make: Callable[[], tuple[Tensor, ...]]
) -> tuple[Tensor, ...]:
    """What `make` gives, made at the first call and again after one of these weights was changed or moved. It goes when the first
    of them does."""
    state = tuple((w.data_ptr(), w.device, 0 if w.is_inference() else w._version) for w in weights)
    made: dict[str, Any] = _kept.setdefault(weights[0], {})
    if name not in made or made[name][0] != state:
        with torch.inference_mode(False), torch.no_grad():  # what is made may be read anywhere
            made[name] = (state, make())
    return made[name][1]


def in_columns(weight: Float[Tensor, "a b"]) -> Float[Tensor, "a b"]:
    """The same matrix, column after column in memory: a product with one row then reads it from front to back, which takes a CPU
    half as long when the matrix is tall."""
    return weight.t().contiguous().t()


def for_one_token(matrix: Float[Tensor, "a b"]) -> Float[Tensor, "a b"]:
    """The matrix as a CPU multiplies it by one row soonest: in columns, unless it is wider than tall."""
    if matrix.shape[0] < matrix.shape[1]:
        return matrix
    return kept("in columns", (matrix,), lambda: (in_columns(matrix),))[0]


def linear(
    layer: nn.Linear, x: Float[Tensor, "batch n a"], cache: Cache | None
) -> Float[Tensor, "batch n b"]:
    """layer(x) of a layer with a bias. Where a run that keeps a cache reads one token on a CPU, it is the product of a matrix and a
    vector, which takes less time than that of two matrices, by the matrix `for_one_token`."""
    if cache is None or x.numel() != layer.in_features or x.device.type != "cpu":
        return layer(x)
    bias, matrix = cache.of_weights(layer, _for_one_token)
    return torch.addmv(bias, matrix, x.flatten()).view(1, 1, -1)


def _for_one_token(layer: nn.Linear) -> tuple[Tensor, Tensor]:
    return layer.bias, for_one_token(layer.weight)
