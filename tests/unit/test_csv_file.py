"""Downloaded tables hold text that no spreadsheet runs as a formula, and numbers that stay numbers."""

import csv
import io
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import viz_app
from viz_app.drawing.csv_file import comment_line, csv_line, csv_table

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


def test_a_cell_with_a_hash_does_not_end_its_row_for_a_reader_that_skips_comments() -> None:
    rows = [["C#", 1, -0.5], ["#", 2, None], ['a#"b", c', np.float32(0.1), np.float64(0.1)]]
    table = comment_line("text: I like C#") + csv_table(["token", "#", "value"], rows)
    read = pd.read_csv(io.StringIO(table), comment="#")
    assert list(read) == ["token", "#", "value"]
    assert read["token"].tolist() == [row[0] for row in rows]
    np.testing.assert_array_equal(read["#"].astype(np.float32), np.float32([1, 2, 0.1]))
    np.testing.assert_array_equal(read["value"], [-0.5, np.nan, 0.1])


def test_every_table_is_written_in_this_one_place() -> None:
    """A second CSV writer would leave formulas in its cells."""
    sources = Path(viz_app.__file__).parent.rglob("*.py")
    assert not [p.name for p in sources if re.search(r"csv\.writer|to_csv", p.read_text())]
