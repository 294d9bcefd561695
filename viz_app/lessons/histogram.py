"""What a class has predicted, as bars or as a map of cells."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from viz_app.lessons.form import PredictionForm, in_digits, value_of, words_of
from viz_app.lessons.lesson import CELLS_STEP, CHOOSE_STEP, NUMBER_STEP, ORDER_STEP, TOKEN_STEP

BINS = 8  # of numbers, at most
MAX_BARS = 8  # of the most frequent orders; the right one and the rest come after them
_NICE = (1, 2, 5, 10)

Votes = Sequence[tuple[str, int]]  # each prediction and how many made it


def histogram(form: PredictionForm, votes: Votes, happened: Any = None) -> dict[str, Any]:
    """Return the bars of these predictions: their words, how many, and whether it is what happened.

    For cells it is a map: how many predicted each cell to be open.
    """
    counts = [(value_of(form, prediction), n) for prediction, n in votes]
    if form["kind"] == CELLS_STEP:
        return {"cells": _cells(form, counts), "rows": form["rows"], "columns": form["columns"]}
    bars = _BARS[form["kind"]](form, counts, happened)
    return {"bars": [{"says": says, "n": n, "happened": is_so} for says, n, is_so in bars]}


Bars = list[tuple[str, int, bool]]


def _each(
    form: PredictionForm, values: Sequence[Any], counts: list[tuple[Any, int]], happened: Any
) -> Bars:
    numbers = dict(counts)
    return [(words_of(form, one), numbers.get(one, 0), one == happened) for one in values]


def _options(form: PredictionForm, counts: list[tuple[Any, int]], happened: Any) -> Bars:
    return _each(form, [key for key, _ in form["options"]], counts, happened)


def _tokens(form: PredictionForm, counts: list[tuple[Any, int]], happened: Any) -> Bars:
    return _each(form, range(len(form["tokens"])), counts, happened)


def _orders(form: PredictionForm, counts: list[tuple[Any, int]], happened: Any) -> Bars:
    """Return a bar for each of the most frequent orders and the right one, and one for the rest."""
    ranked = [value for value, _ in sorted(counts, key=lambda one: -one[1])]
    shown = [value for i, value in enumerate(ranked) if i < MAX_BARS or value == happened]
    n_others = sum(n for value, n in counts if value not in shown)
    others = [("other orders", n_others, False)] if n_others else []
    return [*_each(form, shown, counts, happened), *others]


def _numbers(form: PredictionForm, counts: list[tuple[Any, int]], happened: Any) -> Bars:
    """Return a bar for each number, or for each interval of a round width if there are many."""
    values = sorted({value for value, _ in counts})
    if len(values) <= BINS:
        return [
            (words_of(form, value), sum(n for one, n in counts if one == value), value == happened)
            for value in values
        ]
    width = _round_width((values[-1] - values[0]) / BINS)
    first, last = _bin(values[0], width), _bin(values[-1], width)
    bars = []
    for i in range(first, last + 1):
        low, high = i * width, (i + 1) * width
        n = sum(n for value, n in counts if _bin(value, width) == i)
        is_so = happened is not None and _bin(happened, width) == i
        bars.append((f"{in_digits(low)} to {in_digits(high)}", n, is_so))
    return bars


def _bin(value: float, width: float) -> int:
    """Return the number of the interval that a value is in; a bound belongs to the one above it."""
    return math.floor(round(value / width, 9))  # 0.3 / 0.1 is a little less than 3


def _round_width(least: float) -> float:
    """Return the smallest of 1, 2, 5, 10, 20 … or 0.1, 0.2, 0.5 … that is not below `least`."""
    power = 1.0
    while power > least:
        power /= 10
    while power * 10 <= least:
        power *= 10
    return next(power * one for one in _NICE if power * one >= least)


def _cells(form: PredictionForm, counts: list[tuple[Any, int]]) -> list[list[int]]:
    rows, columns = range(len(form["rows"])), range(len(form["columns"]))
    return [[sum(n for cells, n in counts if cells[r][c]) for c in columns] for r in rows]


_BARS: dict[str, Callable[[PredictionForm, list[tuple[Any, int]], Any], Bars]] = {
    CHOOSE_STEP: _options,
    TOKEN_STEP: _tokens,
    NUMBER_STEP: _numbers,
    ORDER_STEP: _orders,
}
