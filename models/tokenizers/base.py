"""Text ↔ token ids, through the `tokenizers` library.

Characters for dates, byte-pair encoding for translation, byte-level BPE for running text, WordPiece
for BERT. A vocabulary begins with its special tokens (special_tokens.py). Offsets are kept, so that
a token can be traced to its text. From a tokenizer.json only the vocabulary and the merges are
used; everything else in it must equal what this module creates.
"""

import itertools
import json
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property

import tokenizers
from tokenizers import decoders
from tokenizers import models as algorithms

from models.errors import CheckpointError
from models.tokenizers import byte_level, wordpiece, words
from models.tokenizers.encoding import (
    Encoding,
    concatenate,
    decoded_spans,
    hiding,
    token_span,
    trim_span,
    with_special_tokens,
)
from models.tokenizers.pieces import alphabet, by_character, by_piece, trainer
from models.tokenizers.special_tokens import CLASSIFIER_SPECIAL, PLAIN_SPECIAL
from models.tokenizers.stored import ids_of_specials, with_vocabulary_of

PAD, START, END, UNKNOWN = range(4)  # ids in a vocabulary that begins with PLAIN_SPECIAL
SPECIALS = list(PLAIN_SPECIAL.values())

_TRIAL = [
    "",
    "a",
    " The 3rd  of Été, 2021: l'œuf\t<s>▁</s> [MASK]",
    "日本 👍🏽 e\u0301",
    "\x00\ufffd",
    "ab" * 50,
]


@contextmanager
def panics_named() -> Iterator[None]:
    """Re-raise errors of the tokenizers library as CheckpointError.

    Its panics derive from BaseException only, and its errors are bare instances of Exception.
    """
    try:
        yield
    except BaseException as error:
        # PanicException cannot be imported
        if type(error).__name__ != "PanicException" and type(error) is not Exception:
            raise
        raise CheckpointError(f"the tokenizer of this checkpoint cannot be used: {error}") from None


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which a browser sends while an emoji is typed."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


class Tokenizer:
    """A trained vocabulary.

    `encode` gives offsets; `decode` restores the text, for subword pieces with spaces and
    punctuation normalised.
    """

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self.backend = backend
        # "<s>" typed in a text is three characters, not the start token
        self.backend.encode_special_tokens = True
        self.special_ids: dict[str, int] = ids_of_specials(backend)  # name → id
        self._of_bytes = byte_level.is_byte_level(backend)

    @classmethod
    def characters(
        cls, alphabet: Iterable[str], specials: Mapping[str, str] = PLAIN_SPECIAL
    ) -> "Tokenizer":
        """Create a tokenizer of characters; those outside the alphabet become <unk>.

        `specials` is one of special_tokens.SPECIAL_SETS.
        """
        tokens = [*specials.values(), *alphabet]
        return cls(by_character({token: i for i, token in enumerate(tokens)}))

    @classmethod
    def bpe(cls, texts: Iterable[str], vocab_size: int) -> "Tokenizer":
        """Train byte-pair encoding (Sennrich et al. 2016), with merges inside words only."""
        backend = by_piece(algorithms.BPE(unk_token=PLAIN_SPECIAL["unknown"]))
        texts = list(texts)
        characters = alphabet(backend.normalizer.normalize_str(text) for text in texts)
        backend.train_from_iterator(texts, trainer(vocab_size, characters))
        return cls(backend)

    @classmethod
    def byte_level(cls, texts: Iterable[str], vocab_size: int) -> "Tokenizer":
        """Train byte-level BPE: lossless, without unknown tokens."""
        backend = byte_level.by_bytes(algorithms.BPE())
        backend.train_from_iterator(texts, trainer(vocab_size, sorted(byte_level.BYTE_ALPHABET)))
        return cls(backend)

    @classmethod
    def wordpiece(cls, texts: Iterable[str], vocab_size: int) -> "Tokenizer":
        """Train WordPiece on `texts`, lower-cased, with BERT's special tokens."""
        return cls(
            with_vocabulary_of(json.loads(wordpiece.trained_backend(texts, vocab_size).to_str()))
        )

    def for_classes(self) -> "Tokenizer":
        """Return a vocabulary with the special tokens of text classification.

        That is this one if it has them already, else this one with CLASSIFIER_SPECIAL appended.

        Raises:
            ValueError: One of the tokens to append is already in the vocabulary.
        """
        if self.cls_id is not None or "extract" in self.special_ids:
            return self
        content = json.loads(self.to_json())
        vocabulary = content["model"]["vocab"]
        if clashes := [token for token in CLASSIFIER_SPECIAL.values() if token in vocabulary]:
            raise ValueError(
                f"the vocabulary already has a token {clashes[0]}, which is needed as a special "
                "token for classification"
            )
        vocabulary |= {
            token: len(vocabulary) + i for i, token in enumerate(CLASSIFIER_SPECIAL.values())
        }
        return Tokenizer(with_vocabulary_of(content))

    @property
    def vocab_size(self) -> int:
        return self.backend.get_vocab_size()

    @property
    def pad_id(self) -> int:
        """<pad>, which fills up short rows."""
        return self.special_ids["pad"]

    @property
    def unknown_id(self) -> int:
        """<unk>, for a piece outside the vocabulary."""
        return self.special_ids["unknown"]

    @property
    def start_id(self) -> int | None:
        """<s>, before a generated text."""
        return self.special_ids.get("start")

    @property
    def end_id(self) -> int | None:
        """</s>, after a text."""
        return self.special_ids.get("end")

    @property
    def cls_id(self) -> int | None:
        """[CLS], before a text to classify."""
        return self.special_ids.get("cls")

    @property
    def sep_id(self) -> int | None:
        """[SEP], after each of several texts."""
        return self.special_ids.get("sep")

    @property
    def mask_id(self) -> int | None:
        """[MASK], in place of a token to predict."""
        return self.special_ids.get("mask")

    @property
    def mask_token(self) -> str:
        """The mask as this vocabulary spells it, such as [MASK]; "" if it has none."""
        mask = self.special("mask")
        return mask[1] if mask else ""

    def special(self, name: str) -> tuple[int, str] | None:
        """Return (id, token) of a special token; None if the vocabulary does not have it."""
        i = self.special_ids.get(name)
        return None if i is None else (i, self._stored_token(i))

    def _stored_token(self, i: int) -> str:
        """Return a token as the library stores it (a byte as one printable character)."""
        token = self.backend.id_to_token(i)
        if token is None:
            raise ValueError(f"token id must be below {self.vocab_size}, got {i}")
        return token

    def is_special(self, i: int) -> bool:
        """Return True if this is the id of a special token."""
        return i in self.special_ids.values()

    @panics_named()
    def encode(self, text: str, *, before: str = "", after: str = "") -> Encoding:
        """Encode a text, with the named special tokens around it if the vocabulary has them.

        "[MASK]" in a text becomes the mask token if the vocabulary has one.
        """
        mask = self.special("mask")
        if mask is None:
            row = self._plain(text)
        else:
            mask_id, token = mask
            typed_mask = Encoding(token, (mask_id,), (token,), ((0, len(token)),))
            first, *rest = text.split(token)
            row = self._plain(first)
            for part in rest:
                row = concatenate(concatenate(row, typed_mask), self._plain(part))
        return with_special_tokens(row, self.special(before), self.special(after))

    def _plain(self, text: str) -> Encoding:
        raw = self.backend.encode(_replace_surrogates(text), add_special_tokens=False)
        following = [*(start for start, _ in raw.offsets[1:]), len(text)]
        spans = zip(raw.tokens, raw.offsets, following[: len(raw.ids)], strict=True)
        offsets = tuple(
            token_span(text, token, start, end, last) for token, (start, end), last in spans
        )
        return Encoding(text, tuple(raw.ids), self.tokens(raw.ids), offsets)

    def encode_image(self, file: str) -> Encoding:
        """Encode an image file, for a model that reads images.

        Raises:
            ValueError: This model reads text.
        """
        raise ValueError("this model reads a text, not an image")

    def encode_sound(self, file: str) -> Encoding:
        """Encode a sound file, for a model that reads sounds.

        Raises:
            ValueError: This model reads no sound.
        """
        raise ValueError("this model reads no sound")

    def hiding(self, encoding: Encoding, positions: Sequence[int]) -> Encoding:
        """Return the row with [MASK] at these positions.

        Raises:
            ValueError: The vocabulary has no [MASK], or a position is not a token of the text.
        """
        if (mask := self.special("mask")) is None:
            raise ValueError("this model's vocabulary has no [MASK]")
        return hiding(encoding, positions, mask)

    @panics_named()
    def words(self, text: str) -> list[words.CharSpan] | None:
        """Return the spans of a text's words; None if the tokenizer does not split into words."""
        return words.word_spans(self.backend, _replace_surrogates(text))

    @panics_named()
    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode several texts into ids only, for training."""
        return [
            e.ids for e in self.backend.encode_batch_fast(list(texts), add_special_tokens=False)
        ]

    def _text_ids(self, ids: Iterable[int]) -> list[int]:
        """Return these ids up to the first </s>, without special tokens."""
        return [
            int(i)
            for i in itertools.takewhile(lambda i: i != self.end_id, ids)
            if not self.is_special(i)
        ]

    @panics_named()
    def decode(self, ids: Iterable[int]) -> str:
        """Decode these ids up to the first </s>, without special tokens.

        The text of subwords has no outer spaces.
        """
        text_ids = self._text_ids(ids)
        if self._of_bytes:
            return byte_level.text_of(map(self._stored_token, text_ids))
        text = self.backend.decode(text_ids)
        return text.strip() if isinstance(self.backend.decoder, decoders.Metaspace) else text

    def spell(self, ids: Sequence[int]) -> Encoding:
        """Return the decoder input <s> y₁ … yₘ of generated tokens, with their decoded text."""
        ids, text = [int(i) for i in ids], self.decode(ids)
        offsets = [trim_span(text, start, end) for start, end in self._spans(ids)]
        special = frozenset(self.token(i) for i in ids if self.is_special(i))
        row = Encoding(text, tuple(ids), self.tokens(ids), tuple(offsets), special=special)
        return with_special_tokens(row, self.special("start"), None)

    def _spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return the span of each of these tokens in their decoded text."""
        if self._of_bytes:
            before_end = list(itertools.takewhile(lambda i: i != self.end_id, ids))
            tokens = ["" if self.is_special(i) else self._stored_token(i) for i in before_end]
            length = len(self.decode(ids))
            return byte_level.token_spans(tokens) + [(length, length)] * (
                len(ids) - len(before_end)
            )
        return decoded_spans(self.decode, ids)

    def token(self, i: int) -> str:
        """Return a token in readable form; a leading ▁ is the space before it."""
        token = self._stored_token(int(i))
        return (
            byte_level.readable_bytes(token) if self._of_bytes and not self.is_special(i) else token
        )

    def tokens(self, ids: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.token(i) for i in ids)

    @cached_property
    def vocabulary(self) -> tuple[Hashable, ...]:
        """The token of each id; equal to that of a tokenizer with the same tokens."""
        return self.tokens(range(self.vocab_size))

    def to_json(self) -> str:
        return self.backend.to_str(pretty=False)

    @classmethod
    @panics_named()
    def from_json(cls, text: str) -> "Tokenizer":
        """Read a tokenizer.json.

        Raises:
            ValueError: This is not a tokenizer of ours: it pads, truncates, adds tokens,
                normalises, splits or decodes differently, or panics.
        """
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not a tokenizer: {error}") from error
        ours = with_vocabulary_of(content)  # checks the ids; the library iterates up to the largest
        try:
            stored = json.loads(tokenizers.Tokenizer.from_str(text).to_str())
        except Exception as error:  # the library raises bare Exception
            raise ValueError(f"not a tokenizer: {error}") from error
        parts = json.loads(ours.to_str())
        if different := [name for name, part in parts.items() if stored.get(name) != part]:
            raise ValueError(
                f"not a tokenizer of this project: its {different[0]} is not what this "
                "program writes"
            )
        tokenizer = cls(ours)
        tokenizer._check_encoding()
        return tokenizer

    def _check_encoding(self) -> None:
        """Encode a few unusual texts.

        Raises:
            ValueError: An id lies outside the vocabulary or an offset outside the text.
        """
        for text in _TRIAL:
            encoding = self.encode(text)
            self.spell(encoding.ids)
            offsets_fit = all(
                offset is not None and 0 <= offset[0] <= offset[1] <= len(text)
                for offset in encoding.offsets
            )
            if (
                not offsets_fit
                or len(encoding.ids) > len(text.encode()) + 1
                or any(i >= self.vocab_size for i in encoding.ids)
            ):
                raise ValueError(
                    f"not a tokenizer of this project: {text[:20]!r} becomes {len(encoding.ids)} invalid tokens"
                )
