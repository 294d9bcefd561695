"""The signed difference of two runs on any page.

Matrices of one run minus those of the other are on one scale centred at 0.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models.analysis.comparison import same_vocabulary
from models.tokenizers.base import Tokenizer
from viz_app.drawing.labels import Label, of_two_runs
from viz_app.drawing.notes import rows
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import file_name_part
from viz_app.drawing.stamp import Facts, merge_facts, saving

DIFFERENCE_CHROME_PX = 498  # px of the window above and below the pictures
KEYS = ("difference 1", "difference 2")  # of the pictures
DIFFERENCE_NOTE = "difference note"
NO_DIFFERENCE = "There is no difference to show: {}."
ONE_PICTURE = "Only one of two pictures is drawn: {}."
_RUNS = ("this run", "the pinned run")
EQUAL = "No difference in {}: 0.0 everywhere."
DIFFERENCE_HELP = (
    "**This run minus the pinned run**, number by number, on one scale for all pictures of the page. Blue: larger in this run; "
    "orange: smaller; blank: equal. Where a row or a column has another token in each run, both are named."
)
LEARNED_APART = (
    "The two models were trained separately, so number 5 need not mean the same in both."
)
MAX_DIFFERENCE = 512  # rows or columns


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a tokenizer, equal to those of another tokenizer with the same tokens."""

    tokenizer: Tokenizer

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and (
            self.tokenizer is other.tokenizer or same_vocabulary(self.tokenizer, other.tokenizer)
        )

    def __hash__(self) -> int:
        return 0


@dataclass(frozen=True)
class Quantity:
    """A matrix of a run, from which the same matrix of another run can be subtracted.

    `same` maps what both runs must share to its value in this run, so that a row and a column mean
    the same thing in both: a number of tokens, a vocabulary. At most `max_columns` columns are
    drawn, if it is given: those with the largest values in either run. `note` is added to the text
    where the weights of the two runs differ.

    `name` says what is shown in full, such as its layer and head: quantities with different names
    are not subtracted. `file` is the part of the file name that tells it from every other quantity
    of a run, and `about` are the facts of its numbers.
    """

    name: str
    unit: str
    values: Tensor  # (row, column)
    rows: Sequence[Label]
    of_rows: str = "token"  # singular
    are_rows_numbered: bool = False  # their labels are numbers, such as positions
    columns: Callable[[int], Label] | None = None  # None: they are numbered
    of_columns: str = "dimension"
    same: Mapping[str, Hashable] | None = None
    max_columns: int = 0
    weights: Hashable = None
    note: str = ""
    file: str = ""
    about: Facts = field(default_factory=dict)


def differences(
    first: Sequence[Quantity], second: Sequence[Quantity], file: str = ""
) -> dict[str, Any]:
    """Return the pictures of `first` − `second` on one scale, and a note on what they leave out.

    Without one of the pictures the note says why. `file` is the name of both runs in the files'
    names.
    """
    if len(first) != len(second):
        return _none("this page draws different pictures for the two runs")
    both = list(zip(KEYS, zip(first, second, strict=True), strict=False))
    reasons = {key: reason for key, pair in both if (reason := why_none(*pair))}
    pairs = {key: pair for key, pair in both if key not in reasons}
    if not pairs:
        return _none(reasons[KEYS[0]])
    signed = {key: subtract(*pair) for key, pair in pairs.items()}
    limit = max(float(values.abs().max()) for values, _ in signed.values()) or 1.0
    pictures = {key: _picture(*pairs[key], *signed[key], limit, file) for key in pairs}
    notes = dict.fromkeys(
        ours.note for ours, theirs in pairs.values() if ours.note and ours.weights != theirs.weights
    )
    equal = [
        EQUAL.format(ours.name) for key, (ours, _) in pairs.items() if not signed[key][0].any()
    ]
    left_out = map(ONE_PICTURE.format, reasons.values())
    lines = (("line", line) for line in (*left_out, *equal, *notes))
    return {**pictures, DIFFERENCE_NOTE: rows("explained", *lines)}


def _none(reason: str) -> dict[str, Any]:
    return {DIFFERENCE_NOTE: rows("explained", ("line", NO_DIFFERENCE.format(reason)))}


def why_none(ours: Quantity, theirs: Quantity) -> str:
    """Return why one matrix cannot be subtracted from the other; "" if it can."""
    if ours.name != theirs.name:
        return f"this run shows {ours.name} and the pinned run {theirs.name}"
    for what, value in (ours.same or {}).items():
        other = (theirs.same or {}).get(what)
        if value != other:
            are_counts = isinstance(value, int) and isinstance(other, int)
            sizes = f": {value} here and {other} in the pinned run" if are_counts else ""
            return f"the two runs do not have the same {what}{sizes}"
    for axis, what in ((0, ours.of_rows), (1, ours.of_columns)):
        n_ours, n_theirs = ours.values.shape[axis], theirs.values.shape[axis]
        if n_ours != n_theirs:
            return f"the two runs have different numbers of {what}s: {n_ours} here and {n_theirs} in the pinned run"
        if n_ours > MAX_DIFFERENCE and not (axis and (ours.max_columns or ours.columns is None)):
            return undrawn_note(n_ours, what)
    return ""


def undrawn_note(n: int, what: str = "token") -> str:
    """Say that this many rows or columns are not drawn."""
    return f"{n} {what}s are too many for a difference; at most {MAX_DIFFERENCE} are drawn"


def subtract(ours: Quantity, theirs: Quantity) -> tuple[Tensor, list[int]]:
    """Return `ours` − `theirs`, and which columns it has."""
    first, second = (one.values.detach().cpu().double() for one in (ours, theirs))
    columns = list(range(first.shape[1]))
    if ours.max_columns and len(columns) > ours.max_columns:
        largest = torch.maximum(first.amax(0), second.amax(0))
        columns = largest.topk(ours.max_columns).indices.tolist()
    return (first - second)[:, columns], columns


def _picture(
    ours: Quantity,
    theirs: Quantity,
    values: Tensor,
    columns: Sequence[int],
    limit: float,
    file: str,
) -> bytes:
    """Return the payload of the component `states`."""
    numbers = values.numpy().astype(np.float32)
    about = {**merge_facts(ours.about, theirs.about), "difference": "first minus second"}
    header = {
        "title": f"{ours.name[:1].upper()}{ours.name[1:]}: this run minus the pinned run",
        **saving(file_name_part(f"{file}.{ours.file}.difference"), about),
        "axis": "" if ours.columns else f"{ours.of_columns}, from 1",
        "columns": numbers.shape[1],
        "rows": [
            of_two_runs(a, b, *_RUNS).as_json() for a, b in zip(ours.rows, theirs.rows, strict=True)
        ],
        "names": [
            of_two_runs(ours.columns(i), theirs.columns(i), *_RUNS).as_json() for i in columns
        ]
        if ours.columns and theirs.columns
        else None,
        "unit": ours.unit,
        "what": ours.of_rows,
        "numbered": ours.are_rows_numbered,
        "above": DIFFERENCE_CHROME_PX,
        "limit": limit,
        "largest": float(np.abs(numbers).max()),
        "frames": [],
        "ways": [],
    }
    return pack(header, states=numbers)
