"""What a tokenizer knows of words: the parts into which it cuts a text before it cuts these into tokens."""

import re

import tokenizers

Span = tuple[int, int]  # of a text: start, end

_TRIAL, _FIRST = "ab ab", 2  # two words, and where the first ends
_SPACES = ("▁", "Ġ")  # stand for a space within a token


def spans(backend: tokenizers.Tokenizer, text: str) -> list[Span] | None:
    """Where the words of a text stand, in order; None of a tokenizer that knows none, as one of characters. Where the library cuts
    no words but spaces are marked within its tokens, as in Llama's, they are what stands between spaces."""
    trial = backend.encode(_TRIAL, add_special_tokens=False)
    numbers = list(zip(trial.word_ids, trial.offsets, strict=True))
    first, second = (
        {n for n, (_, end) in numbers if (end > _FIRST) == later} for later in (False, True)
    )
    if len(first) != 1 or len(second) != 1:
        return None
    if first == second:
        marked = any(sign in token for token in trial.tokens for sign in _SPACES)
        return [found.span() for found in re.finditer(r"\S+", text)] if marked else None
    raw, found = backend.encode(text, add_special_tokens=False), {}
    for n, (start, end) in zip(raw.word_ids, raw.offsets, strict=True):
        before = found.get(n, (start, end))
        found[n] = min(before[0], start), max(before[1], end)
    return sorted(span for n, span in found.items() if n is not None)
