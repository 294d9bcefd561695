"""Tables as CSV, with an apostrophe before text cells that a spreadsheet would run as a formula.

Cells that hold "#" are quoted as well: readers that skip comments would cut the row there.
"""

import re
from collections.abc import Iterable
from itertools import chain

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_QUOTED = re.compile(r'[",\r\n#]')
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|nan)")


def csv_line(cells: Iterable[object]) -> str:
    """Return one line of a table, with its end."""
    return f"{','.join(map(_field, cells))}\r\n"


def csv_table(head: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """Return a table with the names of its columns."""
    return "".join(map(csv_line, chain([head], rows)))


def comment_line(text: str) -> str:
    """Return a comment row, "# text", unquoted so that readers which skip comments skip it.

    Spreadsheets split it at commas: what they would run as a formula, or take for the start of a
    quotation, gets an apostrophe.
    """
    parts = [f"'{part}" if part.startswith('"') else _safe(part) for part in text.split(",")]
    return f"# {','.join(parts)}\r\n"


def _field(cell: object) -> str:
    """Return a cell as it is written."""
    if not isinstance(cell, str):
        return "" if cell is None else str(cell)
    text = _safe(cell)
    return '"{}"'.format(text.replace('"', '""')) if _QUOTED.search(text) else text


def _safe(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula; numeric strings are unchanged."""
    is_formula = text.startswith(_FORMULA) and not _NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text
