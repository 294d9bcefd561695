"""Each symbol in the pages' texts has an entry in the glossary."""

import re
from pathlib import Path

import pytest

import viz_app
from viz_app.words.glossary import LETTER_MEANINGS, SYMBOLS

NAMED = [
    "q",
    "k",
    "v",
    "√",
    "d_k",
    "d_model",
    "W_Q",
    "W_K",
    "W_V",
    "W_O",
    "α",
    "λ",
    "h(j)",
    "h(m)",
    "s(i)",
    "s(i−1)",
    "c(i)",
]
# a state by its step, a projection, a Greek letter or a sign, as prose writes them
WRITTEN = re.compile(r"\b[hsc]\((?:[ijm]|[ijm]−1|0)\)|(?<![$\\{])\bW_[QKVOR]\b|[α-ω∂Σ∘‖]")


def symbols_in_prose() -> set[str]:
    """Return the symbols in prose; those in formulas have a test of their own, in the browser."""
    files = [
        *Path(viz_app.__file__).parent.glob("views/*/*text.py"),
        *Path(viz_app.__file__).parent.glob("views/*/page.py"),
    ]
    return {found for file in files for found in WRITTEN.findall(file.read_text("utf-8"))}


@pytest.mark.parametrize("symbol", NAMED)
def test_the_terms_of_every_page_are_explained(symbol: str) -> None:
    assert SYMBOLS[symbol]


def test_every_symbol_that_prose_writes_is_explained() -> None:
    used = symbols_in_prose()
    assert {"h(m)", "c(i)", "W_O"} <= used
    assert used <= {*SYMBOLS, *LETTER_MEANINGS}
