"""The payload of two maps and their signed difference on one scale, with both answers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models.analysis.comparison import WORDS, left_to_sink
from viz_app import words
from viz_app.drawing.labels import (
    Label,
    axes_labels,
    of_two_runs,
    queries_are_written,
    quote,
)
from viz_app.drawing.payload import pack
from viz_app.drawing.stamp import saving
from viz_app.views.compare import text
from viz_app.views.compare.compared import Compared, GridIndex
from viz_app.views.compare.text import Sides


def difference(what: Compared, answers: dict[str, Any]) -> bytes:
    """Return the payload of two maps and their signed difference; `answers` as from `of_both`."""
    first, second = (one.numpy() for one in what.maps)
    (queries, keys), *of_each_run = _labels(what)
    signed = first - second
    titles, (query_axis, key_axis) = _names(what), _axis_titles(what)
    header = {
        "title": f"{_heading(what)}: {text.distance_in_bits(what.distance)} apart",
        "site": what.site.name,
        "head": what.chosen[1],
        "distance": what.distance,
        "names": titles,
        "queries": [label.as_json() for label in queries],
        "keys": [label.as_json() for label in keys],
        "labels": [[[label.as_json() for label in axis] for axis in axes] for axes in of_each_run],
        "queryAxis": query_axis,
        "keyAxis": key_axis,
        "scale": what.scale,
        "how": _how(what),
        "most": _most(what, titles, signed, queries, keys),
        **answers,
        **saving(what.file_of_pair, what.about(difference=_difference(what))),
    }
    return pack(
        header,
        first=first.astype(np.float32),
        second=second.astype(np.float32),
        difference=signed.astype(np.float32),
        blockedFirst=_blocked(what, 0, what.chosen),
        blockedSecond=_blocked(what, 1, what.opposite),
    )


def _axis_titles(what: Compared) -> tuple[str, str]:
    """Return the titles of the query axis and of the key axis."""
    are_words, run = what.pair.queries.how == WORDS, what.comparison.first
    writes = not are_words and queries_are_written(run, what.site)
    return words.axes(what.site, what.terms, writes)


def _blocked(what: Compared, side: int, head: GridIndex) -> np.ndarray:
    """Return 1 for each cell that the mask of a head blocks."""
    return (~what.pair.allowed(side, *head)).numpy().astype(np.uint8)


def _names(what: Compared) -> list[str]:
    """Return the titles of the two maps."""
    ours, theirs = what.head_names
    if what.is_one_run:
        return [ours, theirs]
    if ours == theirs:
        return list(what.sides.captions)
    first, second = what.sides.captions
    return [f"{first}: {ours}", f"{second}: {theirs}"]


def _difference(what: Compared) -> str:
    """Describe the difference: one head minus the other."""
    ours, theirs = what.head_names
    if what.is_one_run:
        return f"{ours} minus {theirs}"
    return f"{ours} (first) minus {theirs} (second)"


def _heading(what: Compared) -> str:
    """Return the name of both heads."""
    ours, theirs = what.head_names
    return ours if ours == theirs else f"{ours} and {theirs}"


def _most(
    what: Compared,
    titles: Sequence[str],
    signed: np.ndarray,
    queries: Sequence[Label],
    keys: Sequence[Label],
) -> str:
    """Return the sentence on the cell that differs most."""
    row, column = divmod(int(np.abs(signed).argmax()), signed.shape[1])
    names = titles if what.is_one_run else [what.sides.first, what.sides.second]
    return text.largest_difference_sentence(
        names[0], quote(queries[row]), quote(keys[column]), float(signed[row, column]), names[1]
    )


AxesLabels = tuple[list[Label], list[Label]]  # of the queries and of the keys


def _labels(what: Compared) -> tuple[AxesLabels, AxesLabels, AxesLabels]:
    """Return the labels of the difference, of the first run's map and of the second's."""
    pair, first, second = what.pair, what.comparison.first, what.comparison.second
    ours, theirs = axes_labels(first, what.site), axes_labels(second, pair.second[what.opposite[0]])
    rows, sides = first.axes(what.site), (what.sides.first, what.sides.second)
    axes = []
    for axis, mine, other, row in zip((pair.queries, pair.keys), ours, theirs, rows, strict=True):
        if axis.how == WORDS:
            axes.append([[Label(row.text[slice(*span)].strip()) for span in axis.spans]] * 3)
        else:
            both = [of_two_runs(a, b, *sides) for a, b in zip(mine, other, strict=True)]
            axes.append([both, mine, other])
    queries, keys = axes
    if pair.keys.how == WORDS:
        rest = Label(text.OTHER_TOKENS, text.REST_NOTE, special=True)
        keys = [[*labels, rest] for labels in keys]
    of_difference, of_first, of_second = zip(queries, keys, strict=True)
    return of_difference, of_first, of_second


def _how(what: Compared) -> str:
    """Describe how the rows are compared, kind by kind if the kinds differ in that."""
    ways: dict[str, list[str]] = {}
    for pair in what.comparison.kinds:
        if pair.kind in what.grids:
            ways.setdefault(pair.how, []).append(words.kind_short(pair.first[0]))
    notes = [text.compared_by(way, kinds if len(ways) > 1 else ()) for way, kinds in ways.items()]
    if any(bool(left_to_sink(rows).any()) for rows in what.maps):
        notes.append(text.COMPARED_SINK_NOTE)
    return " ".join([*notes, text.REREAD] if what.is_reread else notes)


def of_both(
    first: Sequence[str], second: Sequence[str], sides: Sides, apart: str = ""
) -> dict[str, Any]:
    """Return the words of both answers and where they diverge, or why they are kept `apart`."""
    diverges, verdict = -1, apart
    if not apart:
        diverges, verdict = (
            text.first_difference(first, second),
            text.compared_answers(first, second, sides),
        )
    both = zip(sides.captions, (first, second), strict=True)
    return {
        "answers": [{"whose": name, "words": list(some), "from": diverges} for name, some in both],
        "verdict": verdict,
    }
