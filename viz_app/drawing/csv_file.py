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


def comment_line(text: str) -> str:
    """Return a comment row, "# text", unquoted so that readers which skip comments skip it.

    Spreadsheets split it at commas: what they would run as a formula, or take for the start of a
    quotation, gets an apostrophe.
    """
    parts = [f"'{part}" if part.startswith('"') else str(_cell(part)) for part in text.split(",")]
    return f"# {','.join(parts)}\r\n"


def _cell(cell: object) -> object:
    """Return a cell that no spreadsheet takes for a formula; numeric strings are unchanged."""
    if isinstance(cell, str) and cell.startswith(_FORMULA) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell
