"""A text as tokens, each with the place in the text it came from; several texts as one row."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

from models.tokenizers.special_tokens import UNKNOWN_TOKENS


@dataclass(frozen=True)
class Encoding:
    """A text as tokens. `offsets[i]` is the (start, end) of token i in `text`, None for a special token that nobody typed.

    `segments` says which of several texts each token belongs to, from 0, where a model marks that. `hidden` holds (position,
    id) of each token in whose place [MASK] was put. `order` is all positions in the order in which a model is to predict
    them, where one was given."""

    text: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int] | None, ...]
    segments: tuple[int, ...] = ()
    hidden: tuple[tuple[int, int], ...] = ()
    order: tuple[int, ...] = ()

    @property
    def unknown(self) -> tuple[str, ...]:
        """The pieces of the text that the vocabulary does not hold, each once."""
        places = zip(self.tokens, self.offsets, strict=True)
        return tuple(
            dict.fromkeys(
                self.text[o[0] : o[1]]
                for token, o in places
                if token in UNKNOWN_TOKENS and o is not None
            )
        )


def concatenate(first: Encoding, second: Encoding, between: str = "") -> Encoding:
    """One row: the second text behind the first, `between` them."""
    moved = len(first.text) + len(between)
    offsets = (
        None if span is None else (span[0] + moved, span[1] + moved) for span in second.offsets
    )
    return Encoding(
        first.text + between + second.text,
        (*first.ids, *second.ids),
        (*first.tokens, *second.tokens),
        (*first.offsets, *offsets),
        (*first.segments, *second.segments),
    )


def framed(
    encoding: Encoding, before: tuple[int, str] | None, after: tuple[int, str] | None
) -> Encoding:
    """The text with a special token (id, token) before it and one behind it."""
    head, tail = [() if special is None else (special,) for special in (before, after)]
    return Encoding(
        encoding.text,
        (*(i for i, _ in head), *encoding.ids, *(i for i, _ in tail)),
        (*(token for _, token in head), *encoding.tokens, *(token for _, token in tail)),
        (*(None for _ in head), *encoding.offsets, *(None for _ in tail)),
    )


def hiding(encoding: Encoding, positions: Sequence[int], mask: tuple[int, str]) -> Encoding:
    """The same row with the special token `mask` (id, token) at these positions. Raises ValueError for a position that holds no
    token of the text."""
    ids, tokens, hidden = list(encoding.ids), list(encoding.tokens), []
    for position in sorted(set(positions)):
        if not 0 <= position < len(ids) or encoding.offsets[position] is None:
            raise ValueError(
                f"position {position} holds no token of the text, which has {len(ids)} tokens counted from 0"
            )
        hidden.append((position, ids[position]))
        ids[position], tokens[position] = mask
    return replace(encoding, ids=tuple(ids), tokens=tuple(tokens), hidden=tuple(hidden))


def hidable(encoding: Encoding, mask_id: int | None) -> tuple[int, ...]:
    """The positions at which a token of the text stands that [MASK] can take the place of: of all but special tokens and a typed
    [MASK]; none where the vocabulary has no [MASK]."""
    if mask_id is None:
        return ()
    hidden = dict(encoding.hidden)
    places = enumerate(zip(encoding.ids, encoding.offsets, strict=True))
    return tuple(
        i
        for i, (token, offset) in places
        if offset is not None and (i in hidden or token != mask_id)
    )


def order_of(n: int, order: Sequence[int]) -> tuple[int, ...]:
    """An order of n positions that keeps what `order` says of those of them that it names; the others follow, left to right. So an
    order holds on while its text is edited."""
    kept = [position for position in order if position < n]
    return (*kept, *(position for position in range(n) if position not in kept))


def with_masks(encoding: Encoding, mask: str) -> str:
    """The text with `mask` in the place of each hidden token."""
    parts, end = [], 0
    for position, _ in encoding.hidden:
        start, after = encoding.offsets[position]
        parts += [encoding.text[end:start], mask]
        end = after
    return "".join([*parts, encoding.text[end:]])


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without the space that a word-initial piece carries, unless the space is all there is."""
    stripped = len(text[start:end]) - len(text[start:end].lstrip())
    return (start, end) if stripped == end - start else (start + stripped, end)


def span(text: str, token: str, start: int, end: int, following: int) -> tuple[int, int]:
    """A token's place in the text, where the library's offsets need help: the space sign that it puts before the first word
    stands for nothing, and accents that the normaliser drew into a letter belong to it (the next token is at `following`)."""
    if token == "▁" and text[start:end].strip(" ▁\t\r\n"):
        return start, start
    while end < following and unicodedata.combining(text[end]):
        end += 1
    return trimmed(text, start, end)
