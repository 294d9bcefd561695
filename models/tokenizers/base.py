"""Text ↔ token ids, through the `tokenizers` library: characters for dates, byte-pair encoding for translation, the same
over bytes for running text, WordPiece for BERT.

A vocabulary begins with its special tokens (special_tokens.py). Offsets are kept, so that a token can be traced to the text it
came from. Of a tokenizer.json only the vocabulary and the merges are taken; what it says besides must be what is made here.
"""

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import tokenizers
from tokenizers import decoders
from tokenizers import models as algorithms

from models.errors import CheckpointError
from models.tokenizers import byte_level, wordpiece, words
from models.tokenizers.encoding import Encoding, concatenate, framed, hiding, span, trimmed
from models.tokenizers.pieces import alphabet, by_character, by_piece, trainer
from models.tokenizers.special_tokens import CLASSIFIED, PLAIN
from models.tokenizers.stored import ids_of_specials, with_vocabulary_of

PAD, START, END, UNKNOWN = range(4)  # of a vocabulary that begins with PLAIN
SPECIALS = list(PLAIN.values())

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
    """Raise a panic of the library, which is no Exception but a BaseException, and its errors, which are of no class of their
    own, as a CheckpointError."""
    try:
        yield
    except BaseException as error:
        # PanicException can be imported from nowhere
        if type(error).__name__ != "PanicException" and type(error) is not Exception:
            raise
        raise CheckpointError(f"the tokenizer of this checkpoint cannot be used: {error}") from None


def _whole(text: str) -> str:
    """The text without halves of characters, such as a browser may send of an emoji while one types."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


class Tokenizer:
    """A trained vocabulary. Encode gives offsets; decode gives the text back, of pieces of words with spaces and signs
    normalised."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self.backend = backend
        self.backend.encode_special_tokens = (
            True  # "<s>" typed in a text is four characters, not the start token
        )
        self.special_ids: dict[str, int] = ids_of_specials(backend)  # name → id
        self._of_bytes = byte_level.is_byte_level(backend)

    @classmethod
    def characters(cls, alphabet: Iterable[str]) -> "Tokenizer":
        """One token a character; characters outside the alphabet become <unk>."""
        return cls(by_character({token: i for i, token in enumerate([*PLAIN.values(), *alphabet])}))

    @classmethod
    def bpe(cls, texts: Iterable[str], vocab_size: int) -> "Tokenizer":
        """Byte-pair encoding (Sennrich et al. 2016) learned on `texts`, merges inside words only."""
        backend = by_piece(algorithms.BPE(unk_token=PLAIN["unknown"]))
        texts = list(texts)
        characters = alphabet(backend.normalizer.normalize_str(text) for text in texts)
        backend.train_from_iterator(texts, trainer(vocab_size, characters))
        return cls(backend)

    @classmethod
    def byte_level(cls, texts: Iterable[str], vocab_size: int) -> "Tokenizer":
        """The same over bytes: no text is unknown, and every text comes back as it was."""
        backend = byte_level.by_bytes(algorithms.BPE())
        backend.train_from_iterator(texts, trainer(vocab_size, sorted(byte_level.ALPHABET)))
        return cls(backend)

    @classmethod
    def wordpiece(cls, texts: Iterable[str], vocab_size: int) -> "Tokenizer":
        """Pieces of words in small letters, learned on `texts`, with BERT's special tokens."""
        return cls(with_vocabulary_of(json.loads(wordpiece.learned(texts, vocab_size).to_str())))

    def for_classes(self) -> "Tokenizer":
        """A vocabulary with the special tokens of a text that is classified: this one where it has its own, else this one with
        CLASSIFIED behind it. Raises ValueError if one of these is another token there."""
        if self.cls_id is not None or "extract" in self.special_ids:
            return self
        content = json.loads(self.to_json())
        vocabulary = content["model"]["vocab"]
        if taken := [token for token in CLASSIFIED.values() if token in vocabulary]:
            raise ValueError(
                f"this vocabulary has a token {taken[0]} already, which is to mark what is classified"
            )
        vocabulary |= {token: len(vocabulary) + i for i, token in enumerate(CLASSIFIED.values())}
        return Tokenizer(with_vocabulary_of(content))

    @property
    def vocab_size(self) -> int:
        return self.backend.get_vocab_size()

    @property
    def pad_id(self) -> int:
        """What fills a short row up."""
        return self.special_ids["pad"]

    @property
    def unknown_id(self) -> int:
        """What stands for a piece that the vocabulary does not hold."""
        return self.special_ids["unknown"]

    @property
    def start_id(self) -> int | None:
        """<s>, before a text that is written."""
        return self.special_ids.get("start")

    @property
    def end_id(self) -> int | None:
        """</s>, behind a text."""
        return self.special_ids.get("end")

    @property
    def cls_id(self) -> int | None:
        """[CLS], before a text that is classified."""
        return self.special_ids.get("cls")

    @property
    def sep_id(self) -> int | None:
        """[SEP], behind each of several texts."""
        return self.special_ids.get("sep")

    @property
    def mask_id(self) -> int | None:
        """[MASK], in the place of a token that is to be guessed."""
        return self.special_ids.get("mask")

    def special(self, name: str) -> tuple[int, str] | None:
        """(id, token) of a special token by its name; None where this vocabulary has none of that name."""
        return (
            (i, self.backend.id_to_token(i))
            if (i := self.special_ids.get(name)) is not None
            else None
        )

    def is_special(self, i: int) -> bool:
        """Whether this id is that of a special token."""
        return i in self.special_ids.values()

    @panics_named()
    def encode(self, text: str, *, before: str = "", after: str = "") -> Encoding:
        """The text's tokens, with the special tokens of these names before and behind them, where the vocabulary has them.
        "[MASK]" in a text is the mask token of a vocabulary with one."""
        parts = (
            text.split(self.backend.id_to_token(self.mask_id))
            if self.mask_id is not None
            else [text]
        )
        row = self._plain(parts[0])
        for part in parts[1:]:
            row = concatenate(concatenate(row, self._typed_mask()), self._plain(part))
        return framed(row, self.special(before), self.special(after))

    def _plain(self, text: str) -> Encoding:
        raw = self.backend.encode(_whole(text), add_special_tokens=False)
        following = [*(start for start, _ in raw.offsets[1:]), len(text)]
        spans = zip(raw.tokens, raw.offsets, following[: len(raw.ids)], strict=True)
        offsets = tuple(span(text, token, start, end, last) for token, (start, end), last in spans)
        return Encoding(text, tuple(raw.ids), self.tokens(raw.ids), offsets)

    def _typed_mask(self) -> Encoding:
        i, token = self.special("mask")
        return Encoding(token, (i,), (token,), ((0, len(token)),))

    def hiding(self, encoding: Encoding, positions: Sequence[int]) -> Encoding:
        """The row with [MASK] at these positions. Raises ValueError for a position without a token of the text, or where the
        vocabulary has no [MASK]."""
        if (mask := self.special("mask")) is None:
            raise ValueError("this model has no [MASK]")
        return hiding(encoding, positions, mask)

    @panics_named()
    def words(self, text: str) -> list[words.Span] | None:
        """Where the words of a text stand, whose tokens belong together; None where this tokenizer knows no words."""
        return words.spans(self.backend, _whole(text))

    @panics_named()
    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids only, for training."""
        return [
            e.ids for e in self.backend.encode_batch_fast(list(texts), add_special_tokens=False)
        ]

    def _text_ids(self, ids: Iterable[int]) -> list[int]:
        """These ids up to the first </s>, special tokens left out."""
        return [
            int(i)
            for i in itertools.takewhile(lambda i: i != self.end_id, ids)
            if not self.is_special(i)
        ]

    @panics_named()
    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids up to the first </s>, special tokens left out; of pieces of words without outer spaces."""
        kept = self._text_ids(ids)
        if self._of_bytes:
            return byte_level.text_of(map(self.backend.id_to_token, kept))
        text = self.backend.decode(kept)
        return text.strip() if isinstance(self.backend.decoder, decoders.Metaspace) else text

    def spell(self, ids: Sequence[int]) -> Encoding:
        """The decoder's input row <s> y₁ … yₘ for tokens a model wrote; the text is theirs, decoded."""
        ids, text = [int(i) for i in ids], self.decode(ids)
        offsets = [trimmed(text, start, end) for start, end in self._spans(ids)]
        return framed(
            Encoding(text, tuple(ids), self.tokens(ids), tuple(offsets)),
            self.special("start"),
            None,
        )

    def _spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Where each of these tokens stands in their text."""
        if self._of_bytes:
            written = ids[: ids.index(self.end_id)] if self.end_id in ids else ids
            tokens = ["" if self.is_special(i) else self.backend.id_to_token(i) for i in written]
            found = byte_level.spans(tokens)
            return found + [(len(self.decode(ids)),) * 2] * (len(ids) - len(written))
        ends = [len(self.decode(ids[:i])) for i in range(len(ids) + 1)]
        return [(ends[i], max(ends[i], ends[i + 1])) for i in range(len(ids))]

    def token(self, i: int) -> str:
        """A token as people read it; a leading ▁ stands for the space before it."""
        token = self.backend.id_to_token(int(i))
        return byte_level.readable(token) if self._of_bytes and not self.is_special(i) else token

    def tokens(self, ids: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.token(i) for i in ids)

    def to_json(self) -> str:
        return self.backend.to_str(pretty=False)

    @classmethod
    @panics_named()
    def from_json(cls, text: str) -> "Tokenizer":
        """Raises ValueError if the text is no tokenizer of ours: pads, truncates, adds tokens, normalises, splits, decodes
        or panics as ours never does."""
        try:
            content = json.loads(text)
            given = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # the library raises bare Exception
            raise ValueError(f"not a tokenizer: {error}") from error
        ours, given = with_vocabulary_of(content), json.loads(given.to_str())
        odd = [part for part, made in json.loads(ours.to_str()).items() if given.get(part) != made]
        if odd:
            raise ValueError(
                f"not a tokenizer of this project: its {odd[0]} is not what this program writes"
            )
        tokenizer = cls(ours)
        tokenizer._try_out()
        return tokenizer

    def _try_out(self) -> None:
        """Raises ValueError if a few odd texts are not encoded to tokens of the vocabulary that lie in the text."""
        for text in _TRIAL:
            encoding = self.encode(text)
            self.spell(encoding.ids)
            places = all(
                offset is not None and 0 <= offset[0] <= offset[1] <= len(text)
                for offset in encoding.offsets
            )
            if (
                not places
                or len(encoding.ids) > len(text.encode()) + 1
                or any(i >= self.vocab_size for i in encoding.ids)
            ):
                raise ValueError(
                    f"not a tokenizer of this project: {text[:20]!r} becomes {len(encoding.ids)} odd tokens"
                )
