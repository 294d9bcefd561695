"""A tokenizer of transformers that is written in Python (SentencePiece of Marian, XLM, CTRL, ByT5 and others): its own tokens and
ids, with the places in the text that `alignment` finds for them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from models.errors import CheckpointError
from models.hub.alignment import aligned
from models.hub.tokenizer import (
    CLOSING,
    FRAMES,
    OPENING,
    SECOND_CLOSING,
    SECOND_OPENING,
    special_ids_of,
)
from models.tokenizers.base import Tokenizer
from models.tokenizers.encoding import Encoding, concatenate, framed

_FIRST, _SECOND = -1, -2  # stand for two texts in the template


class PythonTokenizer(Tokenizer):
    """A tokenizer that transformers has read and that gives no offsets. One thread asks it at a time: some change while they
    encode a target."""

    def __init__(self, library: Any, special_ids: dict[str, int], vocab_size: int) -> None:
        self._library, self._lock = library, threading.Lock()
        self.special_ids = special_ids_of(library) | special_ids
        self._size, self._all_special = vocab_size, frozenset(library.all_special_ids)
        self.frames = _frames(library)

    @property
    def vocab_size(self) -> int:
        return self._size

    @property
    def _of_bytes(self) -> bool:
        return False

    def special(self, name: str) -> tuple[int, str] | None:
        return (i, self.token(i)) if (i := self.special_ids.get(name)) is not None else None

    def is_special(self, i: int) -> bool:
        return i in self._all_special or i == self.pad_id or i == self.start_id

    def encode(self, text: str, *, before: str = "", after: str = "") -> Encoding:
        """The text's tokens, with what the template puts around it. The mask token may be typed; a text that follows the start
        token is a target."""
        is_target, mask = before == "start", self.special("mask")
        parts = [text] if mask is None else text.split(mask[1])
        row = self._part(parts[0], is_target)
        for part in parts[1:]:
            typed = Encoding(mask[1], (mask[0],), (mask[1],), ((0, len(mask[1])),))
            row = concatenate(concatenate(row, typed), self._part(part, is_target))
        for i in reversed(self._frame(before)):
            row = framed(row, (i, self.token(i)), None)
        for i in self._frame(after):
            row = framed(row, None, (i, self.token(i)))
        return row

    def _frame(self, name: str) -> tuple[int, ...]:
        if name in FRAMES:
            return self.frames.get(name, ())
        return () if self.special_ids.get(name) is None else (self.special_ids[name],)

    def _part(self, text: str, is_target: bool = False) -> Encoding:
        """A text without typed mask tokens. Other special tokens in it are taken for plain text."""
        library = self._library
        how = {"split_special_tokens": any(token in text for token in library.all_special_tokens)}
        with self._lock:
            try:
                if is_target:
                    ids = library(text_target=text, add_special_tokens=False, **how)["input_ids"]
                    tokens = library.convert_ids_to_tokens(ids)
                else:
                    tokens = library.tokenize(text, **how)
                    ids = library.convert_tokens_to_ids(tokens)
            except Exception as error:  # the library raises what it likes
                reason = f"{type(error).__name__}: {error}"
                raise ValueError(f"its tokenizer cannot read this text ({reason:.200})") from None
        return Encoding(text, tuple(ids), tuple(map(str, tokens)), tuple(aligned(text, tokens)))

    def words(self, text: str) -> None:
        """None: the library does not say which tokens are of one word."""
        return

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        return [list(self.encode(text).ids) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        with self._lock:
            kept = [i for i in self._text_ids(ids) if self._token(i) is not None]
            return self._library.decode(kept, skip_special_tokens=True)

    def token(self, i: int) -> str:
        """The library's token; an id that it does not have, because the embedding is larger, as a number."""
        if i == self.special_ids.get("pad"):
            return "[pad]"
        with self._lock:
            token = self._token(i)
        return f"[{int(i)}]" if token is None else token

    def _token(self, i: int) -> str | None:
        """None for an id that the library does not have."""
        try:
            token = self._library.convert_ids_to_tokens(int(i))
        except (LookupError, ValueError, OverflowError):
            return None
        return None if token is None else str(token)

    def to_json(self) -> str:
        vocabulary = sorted(self._library.get_vocab().items(), key=lambda entry: entry[1])
        return json.dumps({"python": type(self._library).__name__, "vocabulary": vocabulary})


def _frames(library: Any) -> dict[str, tuple[int, ...]]:
    """The special tokens around one text, and around the second of two.

    Raises CheckpointError for a template that leaves out a text."""
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
