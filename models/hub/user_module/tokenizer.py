"""The functions that the owner of a module gives for its texts, as a tokenizer."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import index

from jaxtyping import Int
from torch import Tensor

from models.errors import InputError, first_line
from models.tokenizers.base import Encoding, Tokenizer
from models.tokenizers.encoding import decoded_spans

Encode = Callable[[str], "Sequence[int] | Tensor | Inputs"]
PADDING_ID = 2**40  # the id of padding: a number that no vocabulary has
TARGET_START = "start"  # marks the field of a target: its row begins with the start tokens
EncodeTexts = Callable[..., "Sequence[Sequence[int] | Tensor | Inputs]"]  # of all texts at once


@dataclass(frozen=True)
class Inputs:
    """Inputs of a module, batch axis first, and the names of its tokens or patches."""

    tensors: tuple[Tensor, ...]
    tokens: tuple[str, ...]


@dataclass(frozen=True)
class UserEncoding(Encoding):
    """A row whose module is called with inputs other than token ids."""

    tensors: tuple[Tensor, ...] = field(default=(), compare=False)


class UserTokenizer(Tokenizer):
    """The owner's functions as a tokenizer.

    If one fails, an InputError names the `field` that holds the text.
    """

    def __init__(
        self, encode: Encode, decode: Callable[[list[int]], str] | None, field: str
    ) -> None:
        self._encode, self._decode, self._field = encode, decode, field
        self.special_ids, self._of_bytes = {"pad": PADDING_ID}, False

    @property
    def vocab_size(self) -> int:
        return 0

    @property
    def vocabulary(self) -> tuple[Hashable, ...]:
        """The owner's functions; their tokens are not known."""
        return self._encode, self._decode

    def special(self, name: str) -> tuple[int, str] | None:
        return None

    def encode(self, text: str, *, before: str = "", after: str = "") -> Encoding:
        try:
            inputs = self._encode(text)
        except Exception as error:  # it is the owner's, and may raise anything
            reason = f"encode cannot read this text ({describe_error(error)})"
            raise InputError(reason, self._field) from error
        return self.row_of(text, inputs, self._field)

    def row_of(
        self, text: str, inputs: Sequence[int] | Int[Tensor, " n"] | Inputs, field: str
    ) -> Encoding:
        """Return the result of the owner's function for a text as a row. Raises InputError."""
        if isinstance(inputs, Inputs):
            n = len(inputs.tokens)
            return UserEncoding(
                text, tuple(range(n)), inputs.tokens, (None,) * n, tensors=inputs.tensors
            )
        try:
            ids = [index(i) for i in inputs]
        except (TypeError, RuntimeError) as error:
            reason = f"encode should return token ids or models.Inputs, got {inputs!r:.60}"
            raise InputError(reason, field) from error
        if not ids:
            raise InputError("this text gives no tokens", field)
        return Encoding(text, tuple(ids), self.tokens(ids), tuple(self._places(text, ids)))

    def _places(self, text: str, ids: Sequence[int]) -> Iterable[tuple[int, int] | None]:
        """Return the place of each token in the text, if the tokens spell what was typed."""
        whole = self._decode is not None and self.decode(ids) == text
        return decoded_spans(self.decode, ids) if whole else [None] * len(ids)

    def words(self, text: str) -> None:
        """None: it is not known which tokens make up a word."""
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
            beginning = ", ".join(map(str, ids[:8])) + ", …" * (len(ids) > 8)
            reason = f"decode cannot write the tokens {beginning} ({describe_error(error)})"
            raise InputError(reason, self._field) from error

    def token(self, i: int) -> str:
        if i == self.pad_id:
            return "[pad]"
        return self.decode([i]).replace(" ", "▁") or str(int(i))

    def is_special(self, i: int) -> bool:
        return False

    def to_json(self) -> str:
        return json.dumps({"own": True, "field": self._field})


@dataclass(frozen=True)
class PendingText(Encoding):
    """A text that waits for the other one: the owner's function makes the rows of both together."""


class TextsTokenizer(UserTokenizer):
    """The owner's function of a source and a target as a tokenizer; `rows` returns a run's rows.

    `start` are the ids that a target begins with, `end` is the one that ends it, if the
    module generates text.
    """

    def __init__(
        self,
        encode: EncodeTexts,
        decode: Callable[[list[int]], str] | None,
        fields: Sequence[str],
        end: int | None = None,
    ) -> None:
        super().__init__(lambda text: [0], decode, fields[0])
        self._encode_texts, self._fields = encode, tuple(fields)
        self.start: tuple[int, ...] = ()
        self._named = {} if end is None else {end: "</s>"}
        self.special_ids |= {} if end is None else {"end": end}

    @property
    def vocabulary(self) -> tuple[Hashable, ...]:
        return self._encode_texts, self._decode

    def open_with(self, source: str) -> None:
        """Learn how a target begins: with the ids of an empty one. Raises InputError."""
        inputs = self._inputs_of([source, ""])[1]
        if isinstance(inputs, Inputs) or not len(inputs):
            raise InputError(
                "encode should return the ids that an empty text begins with", self._fields[1]
            )
        self.start = tuple(int(i) for i in inputs)
        self._named |= dict.fromkeys(self.start, "<s>")

    def encode(self, text: str, *, before: str = "", after: str = "") -> Encoding:
        """Return the row of a source if the module writes, or a text for `rows` to read."""
        if self.start and before != TARGET_START:
            return self.rows([text, ""])[0]
        return PendingText(text, (0,), ("",), (None,))

    def rows(self, texts: Sequence[str]) -> list[Encoding]:
        """Return the rows of all texts together. Raises InputError."""
        results = zip(texts, self._inputs_of(texts), self._fields, strict=True)
        return [self.row_of(text, inputs, field) for text, inputs, field in results]

    def _inputs_of(self, texts: Sequence[str]) -> list[Sequence[int] | Tensor | Inputs]:
        try:
            rows = list(self._encode_texts(*texts))
        except Exception as error:  # it is the owner's, and may raise anything
            raise InputError(
                f"encode cannot read these texts ({describe_error(error)})", self._field
            ) from error
        if len(rows) != len(texts):
            expected = f"a row for each of {' and '.join(self._fields)}"
            raise InputError(f"encode should return {expected}, not {len(rows)}", self._field)
        return rows

    def _places(self, text: str, ids: Sequence[int]) -> Iterable[tuple[int, int] | None]:
        n_start = len(self.start) if tuple(ids[: len(self.start)]) == self.start else 0
        return [None] * n_start + list(super()._places(text, ids[n_start:]))

    def spell(self, ids: Sequence[int]) -> Encoding:
        """Return the row of a target with these ids, in the module's own words."""
        text, row = self.decode(ids), (*self.start, *map(int, ids))
        return Encoding(text, row, self.tokens(row), tuple(self._places(text, row)))

    def decode(self, ids: Iterable[int]) -> str:
        return super().decode([i for i in ids if int(i) not in self._named])

    def token(self, i: int) -> str:
        return self._named.get(int(i)) or super().token(i)

    def is_special(self, i: int) -> bool:
        return i in self._named


def describe_error(error: Exception) -> str:
    """Return an error of the owner's code as its type and the first line of its message."""
    first = first_line(error, 300)
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
