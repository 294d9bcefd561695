"""A model laid out for writing one token at a time on a CPU, where a step is a row of products of a matrix and one vector."""

import copy
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.architectures import Model
from models.trace import Placed

State = list[tuple[int, int]]  # address and version of every weight
_laid_out: WeakKeyDictionary[Model, tuple[State, Model]] = WeakKeyDictionary()


def in_columns(matrix: Float[Tensor, "a b"]) -> Float[Tensor, "a b"]:
    """Return the same matrix, column after column in memory; a matrix wider than tall as it is.

    A product with one vector then reads a tall matrix from front to back, which takes a CPU two thirds of the time."""
    return matrix if matrix.shape[0] < matrix.shape[1] else matrix.t().contiguous().t()


def for_one_token(model: Model) -> Model:
    """Return a model that computes the same for one token of one row, sooner on a CPU.

    It is a copy whose decoder and embedding have their matrices in columns; it shares all other weights, and nothing is
    written onto the model. It is made at the first call, and again after a weight was changed. A model of another
    library, and one on another device, is returned as it is."""
    if model.device.type != "cpu" or not any(isinstance(m, Placed) for m in model.modules()):
        return model
    weights = (*model.parameters(), *model.buffers())
    state = [(w.data_ptr(), 0 if w.is_inference() else w._version) for w in weights]
    made = _laid_out.get(model)
    if made is None or made[0] != state:
        with torch.inference_mode(False), torch.no_grad():  # the copy may be used anywhere
            made = _laid_out[model] = state, _copy(model)
    laid_out = made[1]
    return laid_out if laid_out.training == model.training else laid_out.train(model.training)


def _copy(model: Model) -> Model:
    new: dict[int, Tensor] = {id(w): w for w in (*model.parameters(), *model.buffers())}
    linears = [part for part in model.decoder.modules() if isinstance(part, nn.Linear)]
    for matrix in (model.embedding.weight, *(linear.weight for linear in linears)):
        new[id(matrix)] = nn.Parameter(in_columns(matrix.detach()), requires_grad=False)
    return copy.deepcopy(model, new)
