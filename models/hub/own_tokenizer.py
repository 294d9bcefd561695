"""The functions that the owner of a module gives for its texts, as a tokenizer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from models.errors import InputError
from models.tokenizers.base import Encoding, Tokenizer

Encode = Callable[[str], "Sequence[int] | Tensor | Inputs"]
EncodeTexts = Callable[..., "Sequence[Sequence[int] | Tensor | Inputs]"]  # of all texts at once


@dataclass(frozen=True)
class Inputs:
    """What a module is called with, batch axis first, and the names of the tokens (or patches) that its attention is among."""

    tensors: tuple[Tensor, ...]
    tokens: tuple[str, ...]


@dataclass(frozen=True)
class OwnEncoding(Encoding):
    """A row whose module is called with something else than token ids."""

    tensors: tuple[Tensor, ...] = field(default=(), compare=False)


class OwnTokenizer(Tokenizer):
    """The owner's functions as a tokenizer; where one fails, an InputError names the `field` that holds the text."""

    def __init__(
        self, encode: Encode, decode: Callable[[list[int]], str] | None, field: str
    ) -> None:
        self._encode, self._decode, self._field = encode, decode, field
        self.special_ids, self._of_bytes = {"pad": 2**40}, False  # a number that no vocabulary has

    @property
    def vocab_size(self) -> int:
        return 0

    def special(self, name: str) -> tuple[int, str] | None:
        return None

    def encode(self, text: str, *, before: str = "", after: str = "") -> Encoding:
        try:
            inputs = self._encode(text)
        except Exception as error:  # it is the owner's, and may raise anything
            reason = f"encode cannot read this text ({described(error)})"
            raise InputError(reason, self._field) from error
        return self.row_of(text, inputs, self._field)

    def row_of(self, text: str, inputs: Sequence[int] | Tensor | Inputs, field: str) -> Encoding:
        """Return what the owner's function made of a text as a row. Raises InputError."""
        if isinstance(inputs, Inputs):
            n = len(inputs.tokens)
            return OwnEncoding(
                text, tuple(range(n)), inputs.tokens, (None,) * n, tensors=inputs.tensors
            )
        ids = [int(i) for i in inputs]
        if not ids:
            raise InputError("this text gives no tokens", field)
        return Encoding(text, tuple(ids), self.tokens(ids), tuple(self._places(text, ids)))

    def _places(self, text: str, ids: Sequence[int]) -> Iterable[tuple[int, int] | None]:
        """Where each token stands in the text, where they say together what was typed."""
        whole = self._decode is not None and self.decode(ids) == text
        return self._spans(ids) if whole else [None] * len(ids)

    def _spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        ends = [len(self.decode(ids[:i])) for i in range(len(ids) + 1)]
        return [(ends[i], max(ends[i], ends[i + 1])) for i in range(len(ids))]

    def words(self, text: str) -> None:
        """Nobody has said which of its tokens are of one word."""
        return

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        return [list(self.encode(text).ids) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        if self._decode is None:
            return ""
        ids = [int(i) for i in ids]
        try:
            return str(self._decode(ids))
        except Exception as error:  # it is the owner's, and may raise anything
            shown = ", ".join(map(str, ids[:8])) + ", …" * (len(ids) > 8)
            reason = f"decode cannot write the tokens {shown} ({described(error)})"
            raise InputError(reason, self._field) from error

    def token(self, i: int) -> str:
        if i == self.pad_id:
            return "[pad]"
        return self.decode([i]).replace(" ", "▁") or str(int(i))

    def is_special(self, i: int) -> bool:
        return False

    def to_json(self) -> str:
        return json.dumps({"own": True, "field": self._field})


class TextsTokenizer(OwnTokenizer):
    """The owner's function of several texts as a tokenizer. A text alone gives a row of one token; `rows` makes those of a run."""

    def __init__(self, encode: EncodeTexts, fields: Sequence[str]) -> None:
        super().__init__(lambda text: [0], None, fields[0])
        self._encode_texts, self._fields = encode, tuple(fields)

    def rows(self, texts: Sequence[str]) -> list[Encoding]:
        """Return the rows of all texts together. Raises InputError."""
        try:
            rows = list(self._encode_texts(*texts))
        except Exception as error:  # it is the owner's, and may raise anything
            raise InputError(
                f"encode cannot read these texts ({described(error)})", self._field
            ) from error
        if len(rows) != len(texts):
            wanted = f"a row for each of {' and '.join(self._fields)}"
            raise InputError(f"encode should return {wanted}, not {len(rows)}", self._field)
        named = zip(texts, rows, self._fields, strict=True)
        return [self.row_of(text, row, field) for text, row, field in named]


def described(error: Exception) -> str:
    """Return an error of the owner's code as its type and the first line of its message."""
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first:.300}" if first else type(error).__name__
