"""The sentences of a text on the screen, and which of them are longer than one is read at a glance."""

import re

MOST_WORDS = 20


def sentences(text: str) -> list[str]:
    """Split a text, each formula and each quoted token one word; the rows of tables are left out."""
    text = re.sub(r"\$\$.*?\$\$", "\n\n", text, flags=re.DOTALL)
    text = re.sub(r"\$[^$]*\$", "x", text.replace("et al.", "et al"))
    text = re.sub(r"“[^”]*”", "x", re.sub(r"^\|.*|^\s*- ", "\n", text, flags=re.MULTILINE))
    return re.split(r"(?<=[.!?])(?:[)*]*\s+|(?=\{))|\n\s*\n", text)


def too_long(text: str) -> list[str]:
    """The sentences of a text that have more than twenty words."""
    return [
        one
        for one in sentences(text)
        if sum(bool(re.search(r"\w|\{", word)) for word in one.split()) > MOST_WORDS
    ]
