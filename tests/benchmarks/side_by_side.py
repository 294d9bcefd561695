"""Timing two things in turns, so that whatever else the machine does falls on both alike."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """One line of a table: what was compared, median ratio (min–max) over the rounds, and what to aim for."""

    what: str
    ratios: tuple[float, ...]
    aim: str
    detail: str = ""

    def __str__(self) -> str:
        median, low, high = statistics.median(self.ratios), min(self.ratios), max(self.ratios)
        spread = f"({low:.2f}–{high:.2f})" if len(self.ratios) > 1 else ""
        return f"{self.what:<66} {median:>6.3g} {spread:<14} {self.aim:<8} {self.detail}"


def print_table(results: Sequence[Result]) -> None:
    """The table of all results."""
    print(f"\n{'':<66} {'median':>6} {'(min–max)':<14} {'aim':<8}")
    for result in results:
        print(result)


def in_turns(
    first: Callable[[], object],
    second: Callable[[], object],
    rounds: int,
    clock: Callable[[], float] = time.process_time,
) -> tuple[list[float], list[float]]:
    """Seconds of `first` and of `second` in each round, after one round to warm up; who begins alternates.

    The clock is this process's CPU time: on a busy machine it is steadier than the clock on the wall, and on an idle
    one, with one thread, it is the same."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds + 1):
        for which in (0, 1) if turn % 2 else (1, 0):
            start = clock()
            (first, second)[which]()
            seconds[which].append(clock() - start)
    return seconds[0][1:], seconds[1][1:]


def over(first: Sequence[float], second: Sequence[float]) -> tuple[float, ...]:
    """first / second, round by round."""
    return tuple(a / b for a, b in zip(first, second, strict=True))
