"""Words: the parts a tokenizer splits a text into before it splits them into tokens."""

import re

import tokenizers

CharSpan = tuple[int, int]  # start and end in a text

_TRIAL, _FIRST = "ab ab", 2  # two words, and the end of the first
_SPACES = ("▁", "Ġ")  # stand for a space within a token


def word_spans(backend: tokenizers.Tokenizer, text: str) -> list[CharSpan] | None:
    """Return the spans of the words of a text, in order; None if it has no words.

    A character tokenizer has none. If the library does not split into words but marks spaces within
    tokens, as Llama's does, words are what lies between spaces.
    """
    trial = backend.encode(_TRIAL, add_special_tokens=False)
    numbers = list(zip(trial.word_ids, trial.offsets, strict=True))
    first, second = (
        {n for n, (_, end) in numbers if (end > _FIRST) == later} for later in (False, True)
    )
    if len(first) != 1 or len(second) != 1:
        return None
    if first == second:
        marked = any(sign in token for token in trial.tokens for sign in _SPACES)
        return [match.span() for match in re.finditer(r"\S+", text)] if marked else None
    raw, by_word = backend.encode(text, add_special_tokens=False), {}
    for n, (start, end) in zip(raw.word_ids, raw.offsets, strict=True):
        before = by_word.get(n, (start, end))
        by_word[n] = min(before[0], start), max(before[1], end)
    return sorted(span for n, span in by_word.items() if n is not None)
