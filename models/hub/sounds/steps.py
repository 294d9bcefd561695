"""Measure which stretch of a sound each token of a model reads.

Nothing is taken from a family's name or its configuration: tokens are counted at the model's first
attention, for inputs of many lengths, and their places are those that their vectors depend on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.overrides import TorchFunctionMode

from models.errors import CheckpointError
from models.hub.images.layout import first_vectors
from models.hub.sizes import MAX_HUB_TOKENS

NO_STEPS = "its frames are not a row of equal steps through the sound"
MIN_FRAMES = 8  # of the sound that a model is tried with
_NEAR = 0.75  # steps from its place, within which a token must read
_PROBED = 9  # tokens whose places are measured
_SOFTMAX = (F.softmax, torch.softmax, Tensor.softmax)
_QUERIES = {F.scaled_dot_product_attention: -2, F.multi_head_attention_forward: 0}  # their axis


@dataclass(frozen=True)
class EqualSteps:
    """Parts of a row, one every `step` places; there are some from `first` places on."""

    step: int
    first: int

    def count(self, n: int) -> int:
        """Return the number of parts of n places."""
        return max(0, (n - self.first) // self.step + 1)

    def middle(self, i: int) -> float:
        """Return the middle of part i."""
        return i * self.step + (self.first - 1) / 2


def equal_steps(
    count: Callable[[int], int], shortest: int, longest: int, otherwise: str = NO_STEPS
) -> EqualSteps:
    """Return the steps in which `count` grows, measured between these numbers of places.

    Raises:
        CheckpointError: it does not grow by equal steps; `otherwise` is the reason.
    """
    begin, last, places = count(shortest) + 1, count(longest), range(longest + 1)
    first, end = (bisect_left(places, n, shortest, key=count) for n in (begin, last))
    step, rest = divmod(end - first, max(1, last - begin))
    if step < 1 or rest:
        raise CheckpointError(otherwise)
    return EqualSteps(step, first - (begin - 1) * step)


def token_steps(module: Any, reads: str, features: Float[Tensor, " place *number"]) -> EqualSteps:
    """Return the places along the first axis of the input `reads` that each token covers.

    Raises:
        CheckpointError: the tokens are not equal steps, or depend on other places than their own.
    """
    whole = features[None].to(module.device, module.dtype)

    def count(n: int) -> int:
        return first_queries(module, **{reads: whole[:, :n]})

    n, length = count(len(features)), len(features)
    if not MIN_FRAMES <= n <= MAX_HUB_TOKENS:
        raise CheckpointError(
            f"{NO_STEPS}: it makes {n:,} frames; {MIN_FRAMES} to {MAX_HUB_TOKENS:,} can be shown"
        )
    part = -(-length * MIN_FRAMES // n)
    steps = equal_steps(count, part, min(length, 3 * part))
    if any(count(m) != steps.count(m) for m in (part, length - part // 2, length)):
        raise CheckpointError(NO_STEPS)
    _check_places(module, reads, whole, steps)
    return steps


class _Attends(Exception):  # not an error: it ends a run whose rest is not needed
    """The number of queries of an attention."""


class _UntilAttention(TorchFunctionMode):
    """Ends a run at its first attention."""

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _QUERIES:
            query = args[0] if args else kwargs["query"]
            raise _Attends(query.shape[_QUERIES[func]])
        if func in _SOFTMAX:
            scores = args[0] if args else kwargs["input"]
            if scores.dim() > 2:
                raise _Attends(scores.shape[-2])
        return func(*args, **kwargs)


@torch.no_grad()
def first_queries(module: Any, **inputs: Tensor) -> int:
    """Return the number of tokens at the first attention; 0 for inputs that are too short."""
    try:
        with _UntilAttention():
            module(**inputs)
    except _Attends as attends:
        return attends.args[0]
    except Exception:  # the library may raise anything on an input that makes no token
        return 0
    return 0


def _check_places(module: Any, reads: str, features: Tensor, steps: EqualSteps) -> None:
    """Raise CheckpointError unless the first vectors depend on their own places."""
    length = features.shape[1]
    with torch.enable_grad():
        inputs = features.detach().clone().requires_grad_()
        first = first_vectors(module, **{reads: inputs})
        n = steps.count(length)
        if first is None or first.dim() != 3 or first.shape[:2] != (1, n):
            raise CheckpointError(f"{NO_STEPS}: its first layer reads no row of vectors")
        tokens = [n * (i + 1) // (_PROBED + 1) for i in range(_PROBED)]
        off = [_middle(first[0, token], inputs, steps) - steps.middle(token) for token in tokens]
    if not abs(median(off)) <= _NEAR * steps.step:
        raise CheckpointError(f"{NO_STEPS}: they read other parts of it")


def _middle(vector: Float[Tensor, " d_model"], inputs: Tensor, steps: EqualSteps) -> float:
    """Return the middle of the places that a vector depends on; NaN if there are none.

    A norm over time makes every vector depend on every place, and a wide convolution on most: the
    middle is then that of the step with the most energy of the gradient.
    """
    weights = torch.linspace(0.5, 1.5, len(vector), dtype=vector.dtype, device=vector.device)
    (gradient,) = torch.autograd.grad((vector * weights.square()).sum(), inputs, retain_graph=True)
    energy = gradient[0].double().square().reshape(inputs.shape[1], -1).sum(-1)
    places = energy.nonzero().flatten()
    if len(places) == 0:
        return float("nan")
    least, most = int(places[0]), int(places[-1])
    if least > 0 and most < len(energy) - 1:
        return (least + most) / 2
    sums = F.avg_pool1d(energy[None, None], steps.step, stride=1)[0, 0]
    return int(sums.argmax()) + (steps.step - 1) / 2
