"""Tables as CSV, with an apostrophe before text cells that a spreadsheet would run as a formula."""

import csv
import io
import re
from collections.abc import Iterable
from itertools import chain

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|nan)")


def csv_line(cells: Iterable[object]) -> str:
    """Return one line of a table, with its end."""
    return csv_table(cells, ())


def csv_table(head: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """Return a table with the names of its columns."""
    out = io.StringIO()
    csv.writer(out).writerows(map(_cell, row) for row in chain([head], rows))
    return out.getvalue()


def _cell(cell: object) -> object:
    """Return a cell that no spreadsheet takes for a formula; numeric strings are unchanged."""
    if isinstance(cell, str) and cell.startswith(_FORMULA) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell
