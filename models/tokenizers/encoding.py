"""Encodings: a text as tokens, each with its span in the text; several texts as one row."""

import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from models.tokenizers.special_tokens import UNKNOWN_TOKENS


@dataclass(frozen=True)
class Encoding:
    """A text as tokens.

    `offsets[i]` is the (start, end) of token i in `text`, None for an added special token.
    `segments` is the index, from 0, of the text each token belongs to, if the model uses that.
    `hidden` holds (position, id) of each token replaced by [MASK]. `order` is a permutation of all
    positions in which the model predicts them, if one was given. `special` are the special tokens
    among `tokens`, as the vocabulary spells them.
    """

    text: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int] | None, ...]
    segments: tuple[int, ...] = ()
    hidden: tuple[tuple[int, int], ...] = ()
    order: tuple[int, ...] = ()
    special: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Distinct pieces of the text that are not in the vocabulary."""
        places = zip(self.tokens, self.offsets, strict=True)
        return tuple(
            dict.fromkeys(
                self.text[o[0] : o[1]]
                for token, o in places
                if token in UNKNOWN_TOKENS and o is not None
            )
        )


def concatenate(first: Encoding, second: Encoding, between: str = "") -> Encoding:
    """Return one row of both texts, joined by `between`."""
    shift = len(first.text) + len(between)
    offsets = (
        None if span is None else (span[0] + shift, span[1] + shift) for span in second.offsets
    )
    return Encoding(
        first.text + between + second.text,
        (*first.ids, *second.ids),
        (*first.tokens, *second.tokens),
        (*first.offsets, *offsets),
        (*first.segments, *second.segments),
        special=first.special | second.special,
    )


def with_special_tokens(
    encoding: Encoding, before: tuple[int, str] | None, after: tuple[int, str] | None
) -> Encoding:
    """Return the row with a special token (id, token) before and one after it.

    They belong to the first and the last text, if the row marks its texts.
    """
    head, tail = [() if special is None else (special,) for special in (before, after)]
    texts = encoding.segments
    return Encoding(
        encoding.text,
        (*(i for i, _ in head), *encoding.ids, *(i for i, _ in tail)),
        (*(token for _, token in head), *encoding.tokens, *(token for _, token in tail)),
        (*(None for _ in head), *encoding.offsets, *(None for _ in tail)),
        (*texts[:1] * len(head), *texts, *texts[-1:] * len(tail)),
        special=encoding.special.union(token for _, token in (*head, *tail)),
    )


def hiding(encoding: Encoding, positions: Sequence[int], mask: tuple[int, str]) -> Encoding:
    """Return the row with the special token `mask` (id, token) at these positions.

    Raises:
        ValueError: A position is not a token of the text.
    """
    ids, tokens, hidden = list(encoding.ids), list(encoding.tokens), []
    for position in sorted(set(positions)):
        if not 0 <= position < len(ids) or encoding.offsets[position] is None:
            raise ValueError(
                f"position {position} is not a token of the text, "
                f"which has {len(ids)} tokens counted from 0"
            )
        hidden.append((position, ids[position]))
        ids[position], tokens[position] = mask
    return replace(encoding, ids=tuple(ids), tokens=tuple(tokens), hidden=tuple(hidden))


def positions_to_hide(encoding: Encoding, mask_id: int | None) -> tuple[int, ...]:
    """Return the positions of the tokens that [MASK] can replace.

    These are all but special tokens and a typed [MASK]; none if the vocabulary has no [MASK].
    """
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
    """Return an order of n positions: those in `order` first, then the others from left to right.

    An order thus survives edits of its text.
    """
    ordered = [position for position in order if position < n]
    return (*ordered, *(position for position in range(n) if position not in ordered))


def with_masks(encoding: Encoding, mask: str) -> str:
    """Return the text with `mask` in place of each hidden token."""
    parts, end = [], 0
    for position, _ in encoding.hidden:
        offset = encoding.offsets[position]
        if offset is None:
            raise ValueError(f"the hidden token at position {position} is not part of the text")
        parts += [encoding.text[end : offset[0]], mask]
        end = offset[1]
    return "".join([*parts, encoding.text[end:]])


def decoded_spans(
    decode: Callable[[Sequence[int]], str], ids: Sequence[int]
) -> list[tuple[int, int]]:
    """Return the span of each token in the decoded text: what it adds to the tokens before it."""
    ends = [len(decode(ids[:i])) for i in range(len(ids) + 1)]
    return [(ends[i], max(ends[i], ends[i + 1])) for i in range(len(ids))]


def as_typed(row: Encoding, text: str, typed: str, read: str) -> Encoding:
    """Return a row with offsets in `text`; it was made after replacing `typed` by `read` there."""
    if typed == read or typed not in text:
        return row
    ends, at = [], 0  # of each `read` in the text of the row
    for part in text.split(typed)[:-1]:
        at += len(part) + len(read)
        ends.append(at)

    def place(i: int) -> int:
        n = bisect_right(ends, i)
        moved = i + n * (len(typed) - len(read))
        if n < len(ends) and (inside := i - (ends[n] - len(read))) > 0:
            return moved - inside + min(inside, len(typed))
        return moved

    offsets = (None if span is None else (place(span[0]), place(span[1])) for span in row.offsets)
    return replace(row, text=text, offsets=tuple(offsets))


def trim_span(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without the leading space of a word-initial piece."""
    # a token of spaces only keeps them
    stripped = len(text[start:end]) - len(text[start:end].lstrip())
    return (start, end) if stripped == end - start else (start + stripped, end)


def token_span(text: str, token: str, start: int, end: int, following: int) -> tuple[int, int]:
    """Return a token's span in the text, correcting the library's offsets.

    The space sign added before the first word has an empty span, and combining accents that the
    normaliser merged into a letter belong to it (the next token is at `following`).
    """
    if token == "▁" and text[start:end].strip(" ▁\t\r\n"):
        return start, start
    while end < following and unicodedata.combining(text[end]):
        end += 1
    return trim_span(text, start, end)
