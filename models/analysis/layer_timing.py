"""Measured forward time of one layer of each kind against the length of its input.

For comparison with Vaswani et al. 2017, Table 1.
"""

import math
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import linear_regression, median
from time import perf_counter

import torch
from torch import Tensor, nn

from models.analysis.jacobian_reach import BIDIRECTIONAL, CNN, RNN, SELF_ATTENTION
from models.architectures.encoder_decoder import ENCODER_SELF
from models.layers.attention import MultiHeadAttention
from models.layers.masks import Mask

TIMED_LENGTHS = (8, 16, 32, 64, 128, 256, 512, 1024)
WARM_UP = 1  # passes that are not counted


@dataclass(frozen=True)
class Timing:
    """Times of single forward passes of one layer over `n` tokens, in seconds."""

    layer: str
    n: int
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.seconds)


def time_layers(
    d: int,
    width: int,
    repetitions: int,
    device: torch.device,
    lengths: Sequence[int] = TIMED_LENGTHS,
    seed: int = 1,
) -> Iterator[Timing]:
    """Yield timings of one layer of each kind with `d` features in and out, length by length.

    The batch has one row; a bidirectional RNN has d features in each direction.

    Raises:
        ValueError: A size is impossible.
    """
    if d < 1 or width % 2 == 0 or width < 1 or repetitions < 1 or min(lengths) < 1:
        raise ValueError(
            f"cannot measure d {d}, width {width}, {repetitions} repetitions, lengths {list(lengths)}"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = {name: layer.to(device).eval() for name, layer in _layers(d, width).items()}
        inputs = {n: torch.randn(1, n, d).to(device) for n in lengths}
    return (
        Timing(name, n, _time_passes(_forward(layer), x, repetitions))
        for n, x in inputs.items()
        for name, layer in layers.items()
    )


def _layers(d: int, width: int) -> dict[str, nn.Module]:
    heads = next(h for h in (8, 4, 2, 1) if d % h == 0)
    return {
        RNN: nn.RNN(d, d, batch_first=True),
        BIDIRECTIONAL: nn.RNN(d, d, batch_first=True, bidirectional=True),
        CNN: nn.Conv1d(d, d, width, padding=width // 2),
        SELF_ATTENTION: MultiHeadAttention(d, heads, ENCODER_SELF),
    }


def _forward(layer: nn.Module) -> Callable[[Tensor], Tensor]:
    if isinstance(layer, nn.Conv1d):
        return lambda x: layer(x.transpose(1, 2)).tanh()
    return (
        (lambda x: layer(x, x, Mask()))
        if isinstance(layer, MultiHeadAttention)
        else (lambda x: layer(x)[0])
    )


def _time_passes(
    forward: Callable[[Tensor], Tensor], x: Tensor, repetitions: int
) -> tuple[float, ...]:
    seconds = []
    with torch.no_grad():
        for _ in range(WARM_UP + repetitions):
            _wait(x.device)
            start = perf_counter()
            forward(x)
            _wait(x.device)
            seconds.append(perf_counter() - start)
    return tuple(seconds[WARM_UP:])


def _wait(device: torch.device) -> None:
    """Wait until the device has finished; the CPU always has."""
    if device.type != "cpu":
        torch.accelerator.synchronize()


def growth_rate(timings: Sequence[Timing], layer: str) -> tuple[int, int, float] | None:
    """Return (shortest, longest, slope) of the upper half of a layer's lengths: time ~ n^slope.

    Least squares on both logarithms; None with fewer than two lengths.
    """
    of_layer = sorted((t for t in timings if t.layer == layer), key=lambda t: t.n)
    upper = of_layer[len(of_layer) // 2 :]
    if len(upper) < 2:
        return None
    slope, _ = linear_regression(
        [math.log(t.n) for t in upper], [math.log(t.median) for t in upper]
    )
    return upper[0].n, upper[-1].n, slope


def machine(device: torch.device) -> str:
    """Describe the machine in words."""
    threads = torch.get_num_threads()
    where = f"{platform.system()} on {platform.machine()}, {os.cpu_count()} cores, {threads} thread{'s' * (threads > 1)}"
    if device.type == "cuda":
        where += f", {torch.cuda.get_device_name(device)}"
    return f"{where}, device {device.type}, torch {torch.__version__}"
