"""Where the tokens of a tokenizer that gives no offsets lie in their text."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterator, Sequence

Span = tuple[int, int]
AHEAD = 24  # letters that are searched for a token that does not follow the one before it


def aligned(text: str, tokens: Sequence[str]) -> list[Span]:
    """Return the (start, end) of each token in the text, spaces left out.

    A token that is not found as it is spelt, such as an unknown one, gets the letters that no token beside it has; the others of
    several such tokens get none."""
    return _of_bytes(text, tokens) or _of_letters(text, tokens)


def _of_bytes(text: str, tokens: Sequence[str]) -> list[Span]:
    """The character that each token is a byte of; empty if the tokens are not the bytes of the text."""
    if "".join(tokens) != text.encode("utf-8", "replace").decode("latin-1"):
        return []
    places = [
        (i, i + 1) for i, letter in enumerate(text) for _ in letter.encode("utf-8", "replace")
    ]
    return places if len(places) == len(tokens) else []


def _of_letters(text: str, tokens: Sequence[str]) -> list[Span]:
    """By spelling, blind to case, accents, spaces and the marks of pieces of words."""
    letters, origin = _letters(text)
    found, at = [], 0
    for token in tokens:
        place = _find(letters, token, at)
        found.append(place)
        at = at if place is None else place[1]
    ends, after = [len(letters)] * len(found), len(letters)
    for i in reversed(range(len(found))):
        ends[i] = after
        after = after if found[i] is None else found[i][0]
    spans, at = [], 0
    for place, end in zip(found, ends, strict=True):
        start, at = (at, max(at, end)) if place is None else place
        spans.append(_in_text(text, origin, start, at))
    return spans


def _letters(text: str) -> tuple[str, list[int]]:
    """The letters of a text as they are compared, and which character each is of."""
    pairs = [(letter, i) for i, c in enumerate(text) for letter in _compared(c)]
    return "".join(letter for letter, _ in pairs), [i for _, i in pairs]


def _compared(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    return "".join(c for c in decomposed if not c.isspace() and not unicodedata.combining(c))


def _find(letters: str, token: str, at: int) -> Span | None:
    spellings = [spelling for spelling in map(_compared, _spellings(token)) if spelling]
    for spelling in spellings:
        if letters.startswith(spelling, at):
            return at, at + len(spelling)
    for spelling in spellings:
        if (start := letters.find(spelling, at, at + AHEAD + len(spelling))) >= 0:
            return start, start + len(spelling)
    return None


def _spellings(token: str) -> Iterator[str]:
    """The token as it is, then without what marks the beginning, the end or the inside of a word, or an escaped sign."""
    yield token
    bare = token.replace("▁", " ").replace("</w>", "").removesuffix("@@").removeprefix("##")
    yield bare
    yield html.unescape(bare)
    if len(bare) > 2 and bare[0] == bare[-1] == "@":
        yield bare[1:-1]


def _in_text(text: str, origin: Sequence[int], start: int, end: int) -> Span:
    if start >= end:
        place = origin[start] if start < len(origin) else len(text)
        return place, place
    last = origin[end - 1] + 1
    while last < len(text) and unicodedata.combining(text[last]):
        last += 1
    return origin[start], last
