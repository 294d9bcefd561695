"""Tables to take away hold text that no spreadsheet runs, and numbers that stay numbers."""

import csv
import io
import math
import re
from pathlib import Path

import pytest

import viz_app
from viz_app.drawing.csv_file import csv_line, csv_table

FORMULAS = ['=HYPERLINK("http://x")', "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "=", "-"]


@pytest.mark.parametrize("text", FORMULAS)
def test_text_that_begins_like_a_formula_begins_with_an_apostrophe(text: str) -> None:
    table = csv_table(["token", text], [[text, 1], ["plain", text]])
    assert list(csv.reader(io.StringIO(table, newline=""))) == [
        ["token", f"'{text}"],
        [f"'{text}", "1"],
        ["plain", f"'{text}"],
    ]


@pytest.mark.parametrize("number", [-0.5, -3, 1e-9, -math.inf, "-0.5", "-1.5e-07", "+.5", "-inf", "nan"])  # fmt: skip
def test_negative_numbers_stay_numbers(number: float | str) -> None:
    assert csv_line(["x", number]) == f"x,{number}\r\n"


@pytest.mark.parametrize("text", ["a=b", "3 -", "·-1", "'=1", " =1", "", "infinity"])
def test_other_text_stays_as_it_is(text: str) -> None:
    assert next(csv.reader([csv_line(["x", text])])) == ["x", text]


def test_every_table_is_written_in_this_one_place() -> None:
    """A writer of its own would leave the cells as they are."""
    sources = Path(viz_app.__file__).parent.rglob("*.py")
    writers = [path.name for path in sources if re.search(r"csv\.writer|to_csv", path.read_text())]
    assert writers == ["csv_file.py"]
