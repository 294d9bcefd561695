"""Greedy decoding with the key/value cache beside recomputing the whole prefix for every token, and the cost of a token
by its position."""

from collections.abc import Sequence
from functools import partial
from statistics import median
from time import process_time

import torch

from models.architectures.transformer import Transformer
from models.decoding import greedy
from models.tokenizers.base import END
from tests.benchmarks.recording import ENG_FRA
from tests.benchmarks.side_by_side import Result, in_turns, over, print_table

N_TOKENS = 100
SOURCE = (
    *range(4, 89),
    END,
)  # the English length of 100 French tokens; tokens and weights are random, the work is the same


def decode(model: Transformer, *, use_cache: bool) -> list[float]:
    """Decode 100 tokens and return the seconds of CPU time for each."""
    steps = greedy(model, SOURCE, forced=[7] * N_TOKENS, max_new=N_TOKENS, use_cache=use_cache)
    seconds, start = [], process_time()
    for _ in steps:
        now = process_time()
        seconds.append(now - start)
        start = now
    return seconds


def late_over_early(seconds: Sequence[float]) -> float:
    """Return the median cost of tokens 80–99 over that of tokens 5–24, counted from 0; the first ones warm up."""
    return median(seconds[80:100]) / median(seconds[5:25])


def measure(short: bool = False) -> list[Result]:
    """Measure on one thread with eng-fra's sizes."""
    torch.set_num_threads(1)
    model = Transformer(ENG_FRA).eval()
    by_token: dict[bool, list[list[float]]] = {True: [], False: []}

    def run(use_cache: bool) -> None:
        by_token[use_cache].append(decode(model, use_cache=use_cache))

    recomputed, cached = in_turns(partial(run, False), partial(run, True), 1 if short else 12)
    flat, growing = (
        tuple(late_over_early(s) for s in by_token[use_cache][1:]) for use_cache in (True, False)
    )
    detail = f"{1e3 * median(cached) / N_TOKENS:.2f} ms a token against {1e3 * median(recomputed) / N_TOKENS:.2f}"
    return [
        Result(
            f"decoding {N_TOKENS} tokens: recomputing over cached",
            over(recomputed, cached),
            "≥ 2",
            detail,
        ),
        Result("cached: tokens 80–99 over tokens 5–24", flat, "1", "flat is 1"),
        Result("recomputing: tokens 80–99 over tokens 5–24", growing, "", "for scale"),
    ]


if __name__ == "__main__":
    print_table(measure())
