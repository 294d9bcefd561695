"""Shortening of a text to the tokens that a model can read."""

from collections.abc import Sequence
from typing import Any

from models import InputError, Scope
from models.architectures.base import Field

N_SHOWN_CHARACTERS = 240  # characters of the part that is cut


def shortening_offer(scope: Scope, texts: Sequence[str], field: Field) -> dict[str, Any]:
    """Return the offer to cut a field's text to what the model reads; empty if that is no help.

    `keep` counts characters from the start of the text, `rest` begins the part after them.
    """
    at = [one.name for one in scope.model.text_fields].index(field.name)
    text = texts[at]
    keep = _longest_start(scope, texts, at)
    if not keep:
        return {}
    rest = text[keep:].strip()
    return {
        "keep": keep,
        "offer": f"Use the first {scope.model.stream_limit(field.stream):,} tokens",
        "rest": f"“{rest[:N_SHOWN_CHARACTERS]}{'…' * (len(rest) > N_SHOWN_CHARACTERS)}”",
    }


def _longest_start(scope: Scope, texts: Sequence[str], at: int) -> int:
    """Return the length of the longest start of text `at` that the model reads.

    It is 0 if the model reads none, or all.
    """
    text = texts[at]
    low, high = 0, len(text)

    def is_read(n: int) -> bool:
        return _is_read(scope, [*texts[:at], text[:n], *texts[at + 1 :]])

    if is_read(high):
        return 0
    high = min(high, 20 * scope.n_ctx + 1)  # longer texts are refused unread
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_read(middle) else (low, middle)
    return low


def _is_read(scope: Scope, texts: Sequence[str]) -> bool:
    pairs = zip(scope.model.text_fields, texts, strict=True)
    try:
        scope.streams(*(None if f.optional and not text.strip() else text for f, text in pairs))
    except InputError:
        return False
    return True
