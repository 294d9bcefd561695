"""Multiply–adds of decoding steps, counted with torch.utils.flop_counter while the model computes.

Its formulas cover matrix products, convolutions and the fused attention kernels of GPUs. Products
of a matrix and a vector and the fused kernel of a CPU are added here. As usual, LayerNorm, softmax,
the gates of an RNN's cell and additions are not counted. FlopCounterMode itself is not used: it
hooks every module of the process, including those that other threads are running.

A step's work is a polynomial in the number of positions and of source tokens. It is fitted to a few
short inputs, once per model, so that showing it costs no further pass.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from models.architectures import Model
from models.architectures.base import FILE_FIELDS
from models.decoding.incremental import Incremental

Sizes = tuple[int, int]  # positions in the row, tokens in the source
_UNCACHED = ((0, 0), (1, 0), (2, 0), (0, 1), (1, 1))  # exponents of positions and source tokens
_CACHED = ((0, 0), (1, 0), (0, 1))


def _matrix_vector(matrix: Tensor, vector: Tensor, *, out_val: Tensor) -> int:
    return 2 * matrix.numel()


def _vector_plus(bias: Tensor, matrix: Tensor, vector: Tensor, *, out_val: Tensor, **_: Any) -> int:
    return 2 * matrix.numel()


def _fused_attention(q: Tensor, k: Tensor, v: Tensor, *_: Any, out_val: Any, **__: Any) -> int:
    """Count q·k and weights·v."""
    return 2 * q[..., 0].numel() * k.shape[-2] * (q.shape[-1] + v.shape[-1])


_aten = torch.ops.aten
_FORMULAS: dict[Any, Callable[..., int]] = {
    **flop_registry,
    _aten.mv: _matrix_vector,
    _aten.addmv: _vector_plus,
    _aten._scaled_dot_product_flash_attention_for_cpu: _fused_attention,
}


@dataclass(frozen=True)
class MultiplyAdds:
    """Multiply–adds of the decoder at each step of a run, with a cache and without.

    `parallel` is one `decode` call over all positions.
    """

    cached: tuple[int, ...]
    uncached: tuple[int, ...]
    parallel: int


@dataclass(frozen=True)
class _Polynomial:
    exponents: Sequence[Sizes]
    coefficients: tuple[float, ...]

    def __call__(self, positions: int, source: int) -> int:
        terms = zip(self.coefficients, self.exponents, strict=True)
        return round(sum(c * positions**i * source**j for c, (i, j) in terms))


@dataclass(frozen=True)
class _DecoderWork:
    cached: _Polynomial  # one new position, keys and values of the others from the cache
    uncached: _Polynomial


class CountFlops(TorchDispatchMode):
    """Count the floating-point operations inside a `with` block of this thread, 2 per product."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operation and add its count."""
        result = func(*args, **(kwargs or {}))
        if (count := _FORMULAS.get(func.overloadpacket)) is not None:
            self.flops += count(*args, **(kwargs or {}), out_val=result)
        return result


_known: WeakKeyDictionary[Model, _DecoderWork | None] = WeakKeyDictionary()


def count_multiply_adds(
    model: Model, source: int, steps: int, opening: int = 1
) -> MultiplyAdds | None:
    """Return the work of a run of `steps` steps over a source of `source` tokens.

    The first step reads `opening` tokens: <s>, or a prompt. The result is None for a model whose
    work is not a polynomial of these sizes.
    """
    if model not in _known:
        _known[model] = _measure_work(model)
    if (work := _known[model]) is None:
        return None
    every = range(opening, opening + steps)  # number of positions at each step
    uncached = tuple(work.uncached(t, source) for t in every)
    cached = (uncached[0], *(work.cached(t, source) for t in every[1:]))
    return MultiplyAdds(cached, uncached, uncached[-1])


def _measure_work(model: Model) -> _DecoderWork | None:
    if model.fields[0].kind in FILE_FIELDS:  # such inputs have one length
        return None
    sources = (0,) if model.continues else (2, 3, 5)
    first = 1 if model.continues else model.opening(_row(model, 1)).shape[1]
    if model.config.n_ctx < first + 4:
        return None
    near = list(product((first + 1, first + 2, first + 3), sources[:2]))
    points = [*near, (first + 4, sources[-1])]  # the last one checks the others
    few = [near[0], near[-1], *points[1:2], points[-1]]
    cached = _fit(_CACHED, {at: _count(model, *at, use_cache=True) for at in few})
    uncached = _fit(_UNCACHED, {at: _count(model, *at, use_cache=False) for at in points})
    return None if cached is None or uncached is None else _DecoderWork(cached, uncached)


@torch.no_grad()
def _count(model: Model, positions: int, source: int, *, use_cache: bool) -> int:
    """Count the step that reads a row of this many positions."""
    run = Incremental(model, _row(model, source or 1), use_cache=use_cache)
    row = torch.cat([run.opening, _row(model, positions - run.opening.shape[1])], dim=1)
    if run.cache is not None:
        run.next_log_probs(row[:, :-1])
    with CountFlops() as counter:
        run.next_log_probs(row)
    return counter.flops // 2


def _row(model: Model, n: int) -> Tensor:
    """Return n tokens that are not padding."""
    return torch.full((1, n), 1 if model.config.pad_id == 0 else 0, device=model.device)


def _fit(exponents: Sequence[Sizes], counts: dict[Sizes, int]) -> _Polynomial | None:
    """Return the polynomial through all counts, None if there is none."""
    powers = np.array([[t**i * s**j for i, j in exponents] for t, s in counts], dtype=np.float64)
    solution, *_ = np.linalg.lstsq(powers, np.array(list(counts.values()), np.float64), rcond=None)
    fitted = _Polynomial(exponents, tuple(solution.tolist()))
    exact = all(fitted(*at) == count for at, count in counts.items())
    return fitted if exact else None
