"""Split screen text into sentences, and find those that are too long to be read at a glance."""

import re

MOST_WORDS = 20


def sentences(text: str) -> list[str]:
    """Split a text into sentences; each formula and each quoted token is one word, and table rows are left out."""
    text = re.sub(r"\$\$.*?\$\$", "\n\n", text, flags=re.DOTALL)
    text = re.sub(r"\$[^$]*\$", "x", text.replace("et al.", "et al"))
    text = re.sub(r"“[^”]*”", "x", re.sub(r"^\|.*|^\s*- ", "\n", text, flags=re.MULTILINE))
    return re.split(r"(?<=[.!?])(?:[)*]*\s+|(?=\{))|\n\s*\n", text)


def too_long(text: str) -> list[str]:
    """Return the sentences of a text that have more than twenty words."""
    return [
        one
        for one in sentences(text)
        if sum(bool(re.search(r"\w|\{", word)) for word in one.split()) > MOST_WORDS
    ]
