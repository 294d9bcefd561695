"""A decoding step on a CPU as a sequence of matrix–vector products.

One token of one row leaves nothing to compute in parallel: a step takes as long as reading the
weights does, plus the overhead of each product. So the weights are stored in the order in which
they are read, and the step is written without modules and intermediates.
"""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from models.architectures import Model
from models.layers.attention import MultiHeadAttention
from models.layers.blocks import ACTIVATIONS, AddNorm, CrossLayer, SelfLayer, Stack
from models.layers.cache import Cache
from models.layers.masks import Mask
from models.trace import TracedModule
from models.trace.edits.active import active
from models.trace.recorder import current

State = list[tuple[int, int]]  # address and version of every weight
_laid_out: WeakKeyDictionary[Model, tuple[State, Model]] = WeakKeyDictionary()


def column_major(matrix: Float[Tensor, "a b"]) -> Float[Tensor, "a b"]:
    """Return the matrix stored column by column; a matrix wider than tall is left as it is.

    A product with one vector then reads a tall matrix sequentially, which takes a CPU a third less
    time.
    """
    return matrix if matrix.shape[0] < matrix.shape[1] else matrix.t().contiguous().t()


def for_single_token(model: Model) -> Model:
    """Return a model that computes the same for one token of one row, faster on a CPU.

    It is a copy whose decoder and embedding are stored by columns; it shares all other weights, and
    nothing is written onto the model. It is made at the first call, and again after a weight has
    changed. A third-party model, or one on another device, is returned unchanged.
    """
    if model.device.type != "cpu" or not any(isinstance(m, TracedModule) for m in model.modules()):
        return model
    weights = (*model.parameters(), *model.buffers())
    state = [(w.data_ptr(), 0 if w.is_inference() else w._version) for w in weights]
    entry = _laid_out.get(model)
    if entry is None or entry[0] != state:
        with torch.inference_mode(False), torch.no_grad():  # the copy may be used anywhere
            entry = _laid_out[model] = state, _copy(model)
    laid_out = entry[1]
    return laid_out if laid_out.training == model.training else laid_out.train(model.training)


def _copy(model: Model) -> Model:
    new: dict[int, Tensor] = {id(w): w for w in (*model.parameters(), *model.buffers())}
    decoder = cast(nn.Module, model.decoder)
    linears = [part for part in decoder.modules() if isinstance(part, nn.Linear)]
    for matrix in (model.embedding.weight, *(linear.weight for linear in linears)):
        new[id(matrix)] = nn.Parameter(column_major(matrix.detach()), requires_grad=False)
    laid_out = copy.deepcopy(model, new)
    if isinstance(decoder, Stack) and all(
        type(layer) in (SelfLayer, CrossLayer) for layer in decoder.layers
    ):
        laid_out.decoder = OneTokenStack(cast(Stack, laid_out.decoder))
    return laid_out


class _Product(NamedTuple):
    """W·x + b."""

    matrix: Float[Tensor, "a b"]
    bias: Float[Tensor, "a"]

    def __call__(self, x: Float[Tensor, "b"]) -> Float[Tensor, "a"]:
        return torch.addmv(self.bias, self.matrix, x)

    @classmethod
    def of(cls, *linears: nn.Module) -> "_Product":
        """Join products with one vector into one, whose rows become the weights of the modules."""
        parts = cast(tuple[nn.Linear, ...], linears)
        if len(parts) == 1:
            return cls(parts[0].weight.detach(), parts[0].bias.detach())
        matrix = column_major(torch.cat([part.weight.detach() for part in parts]))
        sizes = [part.out_features for part in parts]
        for part, rows in zip(parts, matrix.split(sizes), strict=True):
            part.weight = nn.Parameter(rows, requires_grad=False)
        return cls(matrix, torch.cat([part.bias.detach() for part in parts]))


class OneTokenStack(Stack):
    """A decoder's layers with a short path for one token of one row, without recording or edits.

    Everything else takes the layers' own path.
    """

    def __init__(self, stack: Stack) -> None:
        nn.Module.__init__(self)
        self.layers, self.last_norm, self.training = stack.layers, stack.last_norm, stack.training
        self._steps = [_layer_step(cast(Any, layer)) for layer in stack.layers]
        first = cast(SelfLayer | CrossLayer, stack.layers[0])
        self._cross_path = first.cross_attn.path if isinstance(first, CrossLayer) else None

    def forward(
        self, x: Float[Tensor, "batch n d_model"], *rest: object
    ) -> Float[Tensor, "batch n d_model"]:
        cache = rest[-1]
        if (
            x.shape[:2] != (1, 1)
            or not isinstance(cache, Cache)
            or (self._cross_path is not None and self._cross_path not in cache)
            or self.training
            or current() is not None
            or active() is not None
        ):
            return super().forward(x, *rest)
        masks = [mask for mask in rest if isinstance(mask, Mask)]
        vector = x.view(-1)
        for step in self._steps:
            vector = step(vector, masks, cache)
        return self.last_norm(vector.view(1, 1, -1))


LayerStep = Callable[[Tensor, list[Mask], Cache], Tensor]


def _layer_step(layer: SelfLayer | CrossLayer) -> LayerStep:
    """Return the step of one layer: (vector, masks, cache) → vector."""
    sublayers = [_around(layer.add_norm_1, _self_attention(layer.self_attn))]
    feed_forward_norm = layer.add_norm_2
    if isinstance(layer, CrossLayer):
        sublayers.append(_around(layer.add_norm_2, _cross_attention(layer.cross_attn)))
        feed_forward_norm = layer.add_norm_3
    activate = ACTIVATIONS[layer.ff.activation][0]
    W_1, W_2 = _Product.of(layer.ff.W_1), _Product.of(layer.ff.W_2)
    sublayers.append(_around(feed_forward_norm, lambda x, masks, cache: W_2(activate(W_1(x)))))

    def step(x: Tensor, masks: list[Mask], cache: Cache) -> Tensor:
        for sublayer in sublayers:
            x = sublayer(x, masks, cache)
        return x

    return step


def _around(add_norm: AddNorm, sublayer: LayerStep) -> LayerStep:
    """Return Add & Norm around a sublayer."""
    norm = add_norm.layer_norm
    settings = norm.normalized_shape, norm.weight.detach(), norm.bias.detach(), norm.eps
    if add_norm.norm == "pre":
        return lambda x, masks, cache: x + sublayer(F.layer_norm(x, *settings), masks, cache)
    return lambda x, masks, cache: F.layer_norm(x + sublayer(x, masks, cache), *settings)


def _self_attention(module: MultiHeadAttention) -> LayerStep:
    """Return the attention of a new position to all positions so far."""
    W_QKV, W_O = _Product.of(module.W_Q, module.W_K, module.W_V), _Product.of(module.W_O)
    shape, attend, path = (3, 1, module.n_heads, 1, module.d_head), module.similarity.attend, module.path  # fmt: skip

    def step(x: Tensor, masks: list[Mask], cache: Cache) -> Tensor:
        q, k, v = W_QKV(x).view(shape).unbind()  # each (1, head, 1, d_head)
        return W_O(attend(q, *cache.append(path, k, v), masks[0]).view(-1))

    return step


def _cross_attention(module: MultiHeadAttention) -> LayerStep:
    """Return the attention of a new position to the encoder's output."""
    W_Q, W_O = _Product.of(module.W_Q), _Product.of(module.W_O)
    shape, attend, path = (1, module.n_heads, 1, module.d_head), module.similarity.attend, module.path  # fmt: skip

    def step(x: Tensor, masks: list[Mask], cache: Cache) -> Tensor:
        k, v = cache.get(path)
        return W_O(attend(W_Q(x).view(shape), k, v, masks[1]).view(-1))

    return step
