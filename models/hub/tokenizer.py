"""Tokenizers of Hugging Face folders, with the special tokens of their own templates.

For a folder without a tokenizer, token ids are typed as numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import tokenizers
from tokenizers import decoders

from models.errors import CheckpointError
from models.hub.token_types import PartTypes, TokenTypes, template_types
from models.tokenizers import byte_level
from models.tokenizers.base import Tokenizer, panics_named
from models.tokenizers.encoding import (
    Encoding,
    as_typed,
    decoded_spans,
    token_span,
    with_special_tokens,
)
from models.tokenizers.special_tokens import BERT_SPECIAL

# places around a text in the template, named by `before` and `after` of a field
OPENING, CLOSING, SECOND_OPENING, SECOND_CLOSING = (
    "opening",
    "closing",
    "second opening",
    "second closing",
)
FRAMES = (OPENING, CLOSING, SECOND_OPENING, SECOND_CLOSING)


def special_ids_of(library: Any) -> dict[str, int]:
    """Return the ids of a library tokenizer's special tokens, by the names used here."""
    ids = {name: getattr(library, f"{name}_token_id", None) for name in ("cls", "sep", "mask")}
    ids["unknown"] = library.unk_token_id
    return {name: i for name, i in ids.items() if i is not None}


class LibraryTokenizer(Tokenizer):
    """A tokenizer read by transformers.

    `frames` maps the places in its template (FRAMES) to the special tokens there; `special_ids`
    are by the names that Attnscope gives them.
    """

    frames: dict[str, tuple[int, ...]]

    def __init__(self, library: Any, special_ids: dict[str, int], vocab_size: int) -> None:
        self.special_ids = special_ids_of(library) | special_ids
        self._size, self._all_special = vocab_size, frozenset(library.all_special_ids)
        self._inputs = list(library.model_input_names)  # the model's inputs for a text

    @property
    def vocab_size(self) -> int:
        return self._size

    def special(self, name: str) -> tuple[int, str] | None:
        return (i, self.token(i)) if (i := self.special_ids.get(name)) is not None else None

    @cached_property
    def types(self) -> TokenTypes:
        """The token types of its template."""
        (alone,) = self._types_of(1)
        pair = self._types_of(2) if SECOND_CLOSING in self.frames else ()
        return TokenTypes(alone, pair)

    def _types_of(self, n_texts: int) -> tuple[PartTypes, ...]:
        """Return the types of each text in the template of one text, or of two."""
        raise NotImplementedError

    def is_special(self, i: int) -> bool:
        return i in self._all_special or i == self.pad_id or i == self.start_id

    def encode(self, text: str, *, before: str = "", after: str = "") -> Encoding:
        """Return the text's tokens with the special tokens of the template around them.

        The mask token may be typed, as the vocabulary spells it or as [MASK]; any other special
        token is plain text. A text after the start token is a target.
        """
        typed, mask = BERT_SPECIAL["mask"], self.mask_token
        read = text.replace(typed, mask) if mask else text
        row = as_typed(self._encode_text(read, before == "start"), text, typed, mask or typed)
        return self._add_frame(row, before, after)

    def _encode_text(self, text: str, is_target: bool) -> Encoding:
        """Return the row of a text in which the mask token may be typed."""
        raise NotImplementedError

    def _add_frame(self, row: Encoding, before: str, after: str) -> Encoding:
        """Return a row with the special tokens that belong around it."""
        for i in reversed(self._frame(before)):
            row = with_special_tokens(row, (i, self.token(i)), None)
        for i in self._frame(after):
            row = with_special_tokens(row, None, (i, self.token(i)))
        return row

    def _frame(self, name: str) -> tuple[int, ...]:
        if name in FRAMES:
            return self.frames.get(name, ())
        return () if self.special_ids.get(name) is None else (self.special_ids[name],)


def frames_of(tokenizer: Tokenizer) -> dict[str, tuple[int, ...]]:
    """Return the places in a tokenizer's template; empty for one that reads typed ids."""
    return tokenizer.frames if isinstance(tokenizer, LibraryTokenizer) else {}


def types_of(tokenizer: Tokenizer) -> TokenTypes | None:
    """Return the token types of a tokenizer's template; None for an IdTokenizer."""
    return tokenizer.types if isinstance(tokenizer, LibraryTokenizer) else None


class HubTokenizer(LibraryTokenizer):
    """A tokenizer of the library `tokenizers`."""

    def __init__(self, library: Any, special_ids: dict[str, int], vocab_size: int) -> None:
        super().__init__(library, special_ids, vocab_size)
        self.backend: tokenizers.Tokenizer = tokenizers.Tokenizer.from_str(
            library.backend_tokenizer.to_str()
        )
        self.backend.no_padding()
        self.backend.no_truncation()
        described = json.loads(self.backend.to_str())
        self._reading_masks = tokenizers.Tokenizer.from_str(
            json.dumps(_without_special(described, self.special_ids.get("mask")))
        )
        # "<s>" typed in a text is three characters, not the start token
        self.backend.encode_special_tokens = True
        self._reading_masks.encode_special_tokens = True
        self._of_bytes = '"ByteLevel"' in json.dumps(described.get("decoder"))
        added = described["added_tokens"]
        self._added = frozenset(token["id"] for token in added)  # text, where others spell bytes
        # the library's own list lacks tokens without a name, such as Whisper's languages
        self._all_special |= {token["id"] for token in added if token["special"]}
        self._trial = _trial_text(self.backend)
        self.frames = _frames(self.backend, self._trial)

    def _types_of(self, n_texts: int) -> tuple[PartTypes, ...]:
        row = self.backend.encode(self._trial, self._trial if n_texts > 1 else None)
        return template_types(row.type_ids, row.sequence_ids, len(self.frames[CLOSING]))

    def to_json(self) -> str:
        """Return the settings that identify this tokenizer, as JSON."""
        return json.dumps([super().to_json(), self.special_ids, self.frames, self._inputs])

    @panics_named()
    def _encode_text(self, text: str, is_target: bool) -> Encoding:
        mask = self.mask_token
        return self._with_masks(text) if mask and mask in text else self._plain(text)

    def _with_masks(self, text: str) -> Encoding:
        """Return the row of a text in which the mask token was typed."""
        raw = self._reading_masks.encode(text, add_special_tokens=False)
        following = [*(start for start, _ in raw.offsets[1:]), len(text)]
        spans = zip(raw.tokens, raw.offsets, following[: len(raw.ids)], strict=True)
        offsets = tuple(
            token_span(text, token, start, end, last) for token, (start, end), last in spans
        )
        return Encoding(text, tuple(raw.ids), self.tokens(raw.ids), offsets)

    @panics_named()
    def decode(self, ids: Iterable[int]) -> str:
        text = self.backend.decode([i for i in self._text_ids(ids) if i < self._size])
        return text.strip() if isinstance(self.backend.decoder, decoders.Metaspace) else text

    def _spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        return decoded_spans(self.decode, ids)

    def token(self, i: int) -> str:
        """Return a token in readable form; an id beyond the vocabulary as its number."""
        token = self.backend.id_to_token(int(i))
        if token is None:
            return "[pad]" if i == self.special_ids.get("pad") else f"[{int(i)}]"
        if not self._of_bytes or i in self._added:
            return token
        try:
            return byte_level.readable_bytes(token)
        except KeyError:  # it spells no bytes
            return token


def _without_special(described: dict[str, Any], i: int | None) -> dict[str, Any]:
    """Return a tokenizer's description in which this token is an added one, but not special."""
    added = described["added_tokens"]
    changed = [token | {"special": False} if token["id"] == i else token for token in added]
    return described | {"added_tokens": changed}


def _trial_text(backend: tokenizers.Tokenizer) -> str:
    """Return a text of at least one token: a letter, or a token if the vocabulary has no letters.

    Raises CheckpointError if the tokenizer drops every text.
    """
    if backend.encode("a", add_special_tokens=False).ids:
        return "a"
    for token in backend.get_vocab():
        if backend.encode(token, add_special_tokens=False).ids:
            return token
    raise CheckpointError("its tokenizer drops every text")


def _frames(backend: tokenizers.Tokenizer, text: str) -> dict[str, tuple[int, ...]]:
    """Return the special tokens around one text and, in a pair, around the second.

    The second text has no frame if the template of a pair does not begin like that of one text
    alone.
    """
    (before, after), (first, between, last) = (
        _template(backend, text),
        _template(backend, text, text),
    )
    frames = {OPENING: before, CLOSING: after}
    if first == before and between[: len(after)] == after:
        frames |= {SECOND_OPENING: between[len(after) :], SECOND_CLOSING: last}
    return frames


def _template(backend: tokenizers.Tokenizer, *texts: str) -> list[tuple[int, ...]]:
    """Return the special tokens before, between and after the texts.

    `backend` must neither pad nor truncate.
    """
    encoded = backend.encode(texts[0], texts[1] if len(texts) > 1 else None)
    gaps: list[tuple[int, ...]] = [() for _ in range(len(texts) + 1)]
    last = [
        max(i for i, text in enumerate(encoded.sequence_ids) if text == n)
        for n in range(len(texts))
    ]
    for i, (token, text) in enumerate(zip(encoded.ids, encoded.sequence_ids, strict=True)):
        if text is None:
            gap = sum(i > end for end in last)
            gaps[gap] = (*gaps[gap], token)
    return gaps


class IdTokenizer(Tokenizer):
    """Token ids typed as numbers, for a model whose folder holds no tokenizer."""

    def __init__(self, special_ids: dict[str, int], vocab_size: int) -> None:
        self.special_ids, self._size = special_ids, vocab_size

    @property
    def vocab_size(self) -> int:
        return self._size

    def special(self, name: str) -> tuple[int, str] | None:
        return (i, self.token(i)) if (i := self.special_ids.get(name)) is not None else None

    def encode(self, text: str, *, before: str = "", after: str = "") -> Encoding:
        """Return the row of typed ids. Raises ValueError for a word that is not an id."""
        ids, offsets, at = [], [], 0
        for word in text.replace(",", " ").split():
            start = text.index(word, at)
            at = start + len(word)
            if not (
                word.isascii() and word.isdigit() and len(word) < 10 and int(word) < self._size
            ):
                expected = f"token ids from 0 to {self._size - 1}"
                raise ValueError(
                    f"this model came without a tokenizer: type {expected}, not {word[:20]!r}"
                )
            ids.append(int(word))
            offsets.append((start, at))
        return with_special_tokens(
            Encoding(text, tuple(ids), self.tokens(ids), tuple(offsets)),
            self.special(before),
            self.special(after),
        )

    def words(self, text: str) -> None:
        """None: ids have no words."""
        return

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        return [list(self.encode(text).ids) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        return " ".join(map(str, self._text_ids(ids)))

    def token(self, i: int) -> str:
        return "[pad]" if i == self.special_ids["pad"] else str(int(i))

    def spell(self, ids: Sequence[int]) -> Encoding:
        ids, text = [int(i) for i in ids], self.decode(ids)
        row = Encoding(text, tuple(ids), self.tokens(ids), tuple(self._spans(ids)))
        return with_special_tokens(row, self.special("start"), None)

    @property
    def _of_bytes(self) -> bool:
        return False

    def to_json(self) -> str:
        return json.dumps({"ids": self._size})
