"""Tokenizers of transformers that are written in Python: Marian, XLM, CTRL, ByT5 and others.

Tokens and ids are their own; `align_tokens` finds the place of each token in the text.
"""

from __future__ import annotations

import html
import json
import threading
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from models.errors import CheckpointError
from models.hub.token_types import PartTypes, template_types
from models.hub.tokenizer import (
    CLOSING,
    OPENING,
    SECOND_CLOSING,
    SECOND_OPENING,
    LibraryTokenizer,
)
from models.tokenizers.encoding import Encoding, concatenate

TokenSpan = tuple[int, int]
AHEAD = 24  # letters to search for a token that does not directly follow the one before it


def align_tokens(text: str, tokens: Sequence[str]) -> list[TokenSpan]:
    """Return the (start, end) of each token in the text, spaces left out.

    A token whose spelling is not found, such as an unknown one, gets the letters between its
    neighbours; of several such tokens in a row, the first gets them all.
    """
    return _byte_spans(text, tokens) or _letter_spans(text, tokens)


def _byte_spans(text: str, tokens: Sequence[str]) -> list[TokenSpan]:
    """Return the character that each token is a byte of; empty if they are not the text's bytes."""
    if "".join(tokens) != text.encode("utf-8", "replace").decode("latin-1"):
        return []
    spans = [(i, i + 1) for i, letter in enumerate(text) for _ in letter.encode("utf-8", "replace")]
    return spans if len(spans) == len(tokens) else []


def _letter_spans(text: str, tokens: Sequence[str]) -> list[TokenSpan]:
    """Return spans by spelling, ignoring case, accents, spaces and the marks of subwords."""
    letters, origin = _letters(text)
    matches, at = [], 0
    for token in tokens:
        place = _find(letters, token, at)
        matches.append(place)
        at = at if place is None else place[1]
    ends, after = [len(letters)] * len(matches), len(letters)
    for i in reversed(range(len(matches))):
        ends[i] = after
        after = after if matches[i] is None else matches[i][0]
    spans, at = [], 0
    for place, end in zip(matches, ends, strict=True):
        start, at = (at, max(at, end)) if place is None else place
        spans.append(_in_text(text, origin, start, at))
    return spans


def _letters(text: str) -> tuple[str, list[int]]:
    """Return the letters of a text as they are compared, and the index of each one's character."""
    pairs = [(letter, i) for i, c in enumerate(text) for letter in _comparable(c)]
    return "".join(letter for letter, _ in pairs), [i for _, i in pairs]


def _comparable(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    return "".join(c for c in decomposed if not c.isspace() and not unicodedata.combining(c))


def _find(letters: str, token: str, at: int) -> TokenSpan | None:
    spellings = [spelling for spelling in map(_comparable, _spellings(token)) if spelling]
    for spelling in spellings:
        if letters.startswith(spelling, at):
            return at, at + len(spelling)
    for spelling in spellings:
        if (start := letters.find(spelling, at, at + AHEAD + len(spelling))) >= 0:
            return start, start + len(spelling)
    return None


def _spellings(token: str) -> Iterator[str]:
    """Yield the token as it is, then without the marks of subwords, then unescaped."""
    yield token
    bare = token.replace("▁", " ").replace("</w>", "").removesuffix("@@").removeprefix("##")
    yield bare
    yield html.unescape(bare)
    if len(bare) > 2 and bare[0] == bare[-1] == "@":
        yield bare[1:-1]


def _in_text(text: str, origin: Sequence[int], start: int, end: int) -> TokenSpan:
    if start >= end:
        place = origin[start] if start < len(origin) else len(text)
        return place, place
    last = origin[end - 1] + 1
    while last < len(text) and unicodedata.combining(text[last]):
        last += 1
    return origin[start], last


_FIRST, _SECOND = -1, -2  # placeholders of two texts in the template


class PythonTokenizer(LibraryTokenizer):
    """A tokenizer read by transformers that returns no offsets.

    One thread uses it at a time: some tokenizers change state while they encode a target.
    """

    def __init__(self, library: Any, special_ids: dict[str, int], vocab_size: int) -> None:
        super().__init__(library, special_ids, vocab_size)
        self._library, self._lock = library, threading.Lock()
        has_mode = hasattr(
            library, "_switch_to_target_mode"
        )  # such a tokenizer switches vocabularies itself
        self._of_target = {} if has_mode else target_vocabulary(library)
        self.frames = _frames(library)

    def _types_of(self, n_texts: int) -> tuple[PartTypes, ...]:
        texts = [[_FIRST], [_SECOND]][:n_texts]
        owners = {_FIRST: 0, _SECOND: 1}
        row = self._library.build_inputs_with_special_tokens(*texts)
        types = self._library.create_token_type_ids_from_sequences(*texts)
        return template_types(types, [owners.get(i) for i in row], len(self.frames[CLOSING]))

    @property
    def _of_bytes(self) -> bool:
        return False

    def _encode_text(self, text: str, is_target: bool) -> Encoding:
        mask = self.special("mask")
        if mask is None:
            return self._part(text, is_target)
        first, *others = text.split(mask[1])
        row = self._part(first, is_target)
        for part in others:
            mask_row = Encoding(mask[1], (mask[0],), (mask[1],), ((0, len(mask[1])),))
            row = concatenate(concatenate(row, mask_row), self._part(part, is_target))
        return row

    def _part(self, text: str, is_target: bool = False) -> Encoding:
        """Return the row of a text without typed mask tokens.

        Other special tokens in it count as plain text.
        """
        library = self._library
        options = {
            "split_special_tokens": any(token in text for token in library.all_special_tokens)
        }
        with self._lock:
            try:
                if is_target and self._of_target:
                    tokens, unknown = library.tokenize(text, **options), library.unk_token
                    ids = [self._of_target.get(t, self._of_target[unknown]) for t in tokens]
                elif is_target:
                    ids = library(text_target=text, add_special_tokens=False, **options)[
                        "input_ids"
                    ]
                    tokens = library.convert_ids_to_tokens(ids)
                else:
                    tokens = library.tokenize(text, **options)
                    ids = library.convert_tokens_to_ids(tokens)
            except Exception as error:  # the library may raise anything
                reason = f"{type(error).__name__}: {error}"
                raise ValueError(f"its tokenizer cannot read this text ({reason:.200})") from None
        return Encoding(
            text, tuple(ids), tuple(map(str, tokens)), tuple(align_tokens(text, tokens))
        )

    def words(self, text: str) -> None:
        """None: the library does not say which tokens make up a word."""
        return

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        return [list(self.encode(text).ids) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        with self._lock:
            in_vocabulary = [i for i in self._text_ids(ids) if self._token(i) is not None]
            return self._library.decode(in_vocabulary, skip_special_tokens=True)

    def token(self, i: int) -> str:
        """Return the library's token; an id beyond its vocabulary as a number."""
        if i == self.special_ids.get("pad"):
            return "[pad]"
        with self._lock:
            token = self._token(i)
        return f"[{int(i)}]" if token is None else token

    def _token(self, i: int) -> str | None:
        """Return the library's token; None for an id beyond its vocabulary."""
        try:
            token = self._library.convert_ids_to_tokens(int(i))
        except (LookupError, ValueError, OverflowError):
            return None
        return None if token is None else str(token)

    def to_json(self) -> str:
        """Return the settings that identify this tokenizer, as JSON.

        Only switches and whole numbers of the library's own settings count.
        """
        settings = self._library.init_kwargs.items()
        switches = {name: value for name, value in settings if isinstance(value, int)}
        vocabulary = sorted(self._library.get_vocab().items(), key=lambda entry: entry[1])
        kind = type(self._library).__name__
        return json.dumps([kind, vocabulary, switches, self.special_ids, self.frames, self._inputs])


def target_vocabulary(library: Any) -> dict[str, int]:
    """Return the target's own vocabulary, token → id; empty if source and target share one."""
    source, target = (getattr(library, name, None) for name in ("encoder", "decoder"))
    if not isinstance(source, dict) or not isinstance(target, dict):
        return {}
    is_shared = all(source.get(token) == i for i, token in target.items())
    return {} if is_shared else {token: i for i, token in target.items()}


def _frames(library: Any) -> dict[str, tuple[int, ...]]:
    """Return the special tokens around one text, and around the second of two.

    Raises CheckpointError for a template that leaves out a text.
    """
    one = list(library.build_inputs_with_special_tokens([_FIRST]))
    two = list(library.build_inputs_with_special_tokens([_FIRST], [_SECOND]))
    if _FIRST not in one or _FIRST not in two or _SECOND not in two:
        raise CheckpointError("its tokenizer's template leaves out a text")
    at, (first, second) = one.index(_FIRST), (two.index(_FIRST), two.index(_SECOND))
    before, after = tuple(one[:at]), tuple(one[at + 1 :])
    frames = {OPENING: before, CLOSING: after}
    between = tuple(two[first + 1 : second])
    if tuple(two[:first]) == before and between[: len(after)] == after and after:
        frames |= {
            SECOND_OPENING: between[len(after) :],
            SECOND_CLOSING: tuple(two[second + 1 :]),
        }
    return frames
