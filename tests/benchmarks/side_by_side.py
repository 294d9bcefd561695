"""Timing two things in turns, so that other load on the machine affects both equally."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """One line of a table: the comparison, the median ratio (min–max) over the rounds, and the aim."""

    what: str
    ratios: tuple[float, ...]
    aim: str
    detail: str = ""

    def __str__(self) -> str:
        median, low, high = statistics.median(self.ratios), min(self.ratios), max(self.ratios)
        spread = f"({low:.2f}–{high:.2f})" if len(self.ratios) > 1 else ""
        return f"{self.what:<66} {median:>6.3g} {spread:<14} {self.aim:<8} {self.detail}"


def print_table(results: Sequence[Result]) -> None:
    """Print the table of all results."""
    print(f"\n{'':<66} {'median':>6} {'(min–max)':<14} {'aim':<8}")
    for result in results:
        print(result)


def in_turns(
    first: Callable[[], object],
    second: Callable[[], object],
    rounds: int,
    clock: Callable[[], float] = time.process_time,
) -> tuple[list[float], list[float]]:
    """Return the seconds of `first` and of `second` in each round, after one round to warm up; the order alternates.

    The clock is this process's CPU time: on a busy machine it is steadier than wall-clock time, and on an idle one, with
    one thread, it is the same."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds + 1):
        for which in (0, 1) if turn % 2 else (1, 0):
            start = clock()
            (first, second)[which]()
            seconds[which].append(clock() - start)
    return seconds[0][1:], seconds[1][1:]


def over(first: Sequence[float], second: Sequence[float]) -> tuple[float, ...]:
    """Return first / second, round by round."""
    return tuple(a / b for a, b in zip(first, second, strict=True))
