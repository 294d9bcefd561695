"""Text ↔ token ids, through the `tokenizers` library: characters for dates, byte-pair encoding for translation, the same
over bytes for running text.

Ids 0–3 are always <pad> <s> </s> <unk>. Offsets are kept, so that a token can be traced to the text it came from.
Of a tokenizer.json only the vocabulary and the merges are taken; what it says besides must be what is made here.
"""

import json
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, normalizers, pre_tokenizers, trainers
from tokenizers import models as algorithms

from models.errors import CheckpointError
from models.tokenizers import byte_level

PAD, START, END, UNKNOWN = range(4)
SPECIALS = ["<pad>", "<s>", "</s>", "<unk>"]

# A word with its apostrophe (l', don'), one digit, or one other sign; a leading ▁ stands for the space before it.
_PIECES = r"▁?\p{L}[\p{L}\p{M}]*'?|▁?\p{N}|▁?[^▁\p{L}\p{N}]|▁"

LONGEST_TOKEN = 1000    # characters
_TRIAL = ["", "a", " The 3rd  of Été, 2021: l'œuf\t<s>▁</s> ", "日本 👍🏽 e\u0301", "\x00\ufffd", "ab" * 50]


@contextmanager
def _panics_named() -> Iterator[None]:
    """A panic of the library, which is no Exception but a BaseException, as a CheckpointError."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":   # it can be imported from nowhere
            raise
        raise CheckpointError(f"the tokenizer of this checkpoint cannot be used: {error}") from None


@dataclass(frozen=True)
class Encoding:
    """A text as tokens. `offsets[i]` is the (start, end) of token i in `text`, None for a special token."""

    text: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int] | None, ...]

    @property
    def unknown(self) -> tuple[str, ...]:
        """The pieces of the text that the vocabulary does not hold, each once."""
        pieces = (
            self.text[o[0] : o[1]] for i, o in zip(self.ids, self.offsets, strict=True) if i == UNKNOWN and o is not None
        )
        return tuple(dict.fromkeys(pieces))


class Tokenizer:
    """A trained vocabulary. Encode gives offsets; decode gives the text back, of pieces of words with spaces and signs
    normalised."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self.backend = backend
        self.backend.encode_special_tokens = True   # "<s>" typed in a text is four characters, not the start token
        self._of_bytes = byte_level.is_byte_level(backend)

    @classmethod
    def characters(cls, alphabet: Iterable[str]) -> "Tokenizer":
        """One token a character; characters outside the alphabet become <unk>."""
        vocabulary = {token: i for i, token in enumerate([*SPECIALS, *alphabet])}
        return cls(_by_character(vocabulary))

    @classmethod
    def bpe(cls, texts: Iterable[str], vocab_size: int) -> "Tokenizer":
        """Byte-pair encoding (Sennrich et al. 2016) learned on `texts`, merges inside words only."""
        backend = _by_piece(algorithms.BPE(unk_token=SPECIALS[UNKNOWN]))
        texts = list(texts)
        alphabet = _alphabet(backend.normalizer.normalize_str(text) for text in texts)
        backend.train_from_iterator(texts, _trainer(vocab_size, alphabet))
        return cls(backend)

    @classmethod
    def byte_level(cls, texts: Iterable[str], vocab_size: int) -> "Tokenizer":
        """The same over bytes: no text is unknown, and every text comes back as it was."""
        backend = byte_level.by_bytes(algorithms.BPE())
        backend.train_from_iterator(texts, _trainer(vocab_size, sorted(byte_level.ALPHABET)))
        return cls(backend)

    @property
    def vocab_size(self) -> int:
        return self.backend.get_vocab_size()

    @_panics_named()
    def encode(self, text: str, *, begins: bool = False, ends: bool = False) -> Encoding:
        """The text's tokens; with <s> before them, </s> behind them."""
        whole = re.sub("[\ud800-\udfff]", "\ufffd", text)   # half an emoji, as a browser may send while one types
        raw = self.backend.encode(whole, add_special_tokens=False)
        following = [*(start for start, _ in raw.offsets[1:]), len(text)]
        spans = zip(raw.tokens, raw.offsets, following[: len(raw.ids)], strict=True)
        offsets = tuple(_span(text, token, start, end, last) for token, (start, end), last in spans)
        plain = Encoding(text, tuple(raw.ids), self.tokens(raw.ids), offsets)
        return _with(plain, before=START if begins else None, after=END if ends else None)

    @_panics_named()
    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids only, for training."""
        return [e.ids for e in self.backend.encode_batch_fast(list(texts), add_special_tokens=False)]

    @_panics_named()
    def decode(self, ids: Iterable[int]) -> str:
        """The text of these ids up to the first </s>, special tokens left out; of pieces of words without outer spaces."""
        kept = []
        for i in ids:
            if i == END:
                break
            if i > UNKNOWN:
                kept.append(int(i))
        if self._of_bytes:
            return byte_level.text_of(map(self.backend.id_to_token, kept))
        text = self.backend.decode(kept)
        return text.strip() if isinstance(self.backend.decoder, decoders.Metaspace) else text

    def spell(self, ids: Sequence[int]) -> Encoding:
        """The decoder's input row <s> y₁ … yₘ for tokens a model wrote; the text is theirs, decoded."""
        ids, text = [int(i) for i in ids], self.decode(ids)
        offsets = [_trimmed(text, start, end) for start, end in self._spans(ids)]
        return _with(Encoding(text, tuple(ids), self.tokens(ids), tuple(offsets)), before=START)

    def _spans(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Where each of these tokens stands in their text."""
        if self._of_bytes:
            written = ids[: ids.index(END)] if END in ids else ids
            tokens = [self.backend.id_to_token(i) if i > UNKNOWN else "" for i in written]
            found = byte_level.spans(tokens)
            return found + [(len(self.decode(ids)),) * 2] * (len(ids) - len(written))
        ends = [len(self.decode(ids[:i])) for i in range(len(ids) + 1)]
        return [(ends[i], max(ends[i], ends[i + 1])) for i in range(len(ids))]

    def token(self, i: int) -> str:
        """A token as people read it; a leading ▁ stands for the space before it."""
        token = self.backend.id_to_token(int(i))
        return byte_level.readable(token) if self._of_bytes and i > UNKNOWN else token

    def tokens(self, ids: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.token(i) for i in ids)

    def to_json(self) -> str:
        return self.backend.to_str(pretty=False)

    @classmethod
    @_panics_named()
    def from_json(cls, text: str) -> "Tokenizer":
        """Raises ValueError if the text is no tokenizer of ours: pads, truncates, adds tokens, normalises, splits, decodes
        or panics as ours never does."""
        try:
            content = json.loads(text)
            given = tokenizers.Tokenizer.from_str(text)
        except Exception as error:   # the library raises bare Exception
            raise ValueError(f"not a tokenizer: {error}") from error
        ours, given = _with_vocabulary_of(content), json.loads(given.to_str())
        odd = [part for part, made in json.loads(ours.to_str()).items() if given.get(part) != made]
        if odd:
            raise ValueError(f"not a tokenizer of this project: its {odd[0]} is not what this program writes")
        tokenizer = cls(ours)
        tokenizer._try_out()
        return tokenizer

    def _try_out(self) -> None:
        """Raises ValueError if a few odd texts are not encoded to tokens of the vocabulary that lie in the text."""
        for text in _TRIAL:
            encoding = self.encode(text)
            self.spell(encoding.ids)
            places = all(offset is not None and 0 <= offset[0] <= offset[1] <= len(text) for offset in encoding.offsets)
            if not places or len(encoding.ids) > len(text.encode()) + 1 or any(i >= self.vocab_size for i in encoding.ids):
                raise ValueError(f"not a tokenizer of this project: {text[:20]!r} becomes {len(encoding.ids)} odd tokens")


def _trainer(vocab_size: int, alphabet: list[str]) -> trainers.BpeTrainer:
    return trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=SPECIALS, show_progress=False, min_frequency=2,
        initial_alphabet=alphabet, limit_alphabet=len(alphabet), max_token_length=LONGEST_TOKEN,
    )


def _by_character(vocabulary: dict[str, int]) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(algorithms.WordLevel(vocabulary, unk_token=SPECIALS[UNKNOWN]))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    backend.decoder = decoders.Fuse()
    return backend


def _by_piece(algorithm: algorithms.BPE) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(algorithm)
    backend.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Replace("’", "'")]
    )
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(split=False), pre_tokenizers.Split(Regex(_PIECES), behavior="isolated")]
    )
    backend.decoder = decoders.Metaspace()
    return backend


def _with_vocabulary_of(content: Any) -> tokenizers.Tokenizer:
    """A tokenizer of ours with the vocabulary and the merges that a tokenizer.json holds. Raises ValueError if they are none."""
    model = content.get("model") if isinstance(content, dict) else None
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(vocabulary, dict) or sorted(map(repr, vocabulary.values())) != sorted(map(repr, range(len(vocabulary)))):
        raise ValueError("not a tokenizer of this project: its tokens must have the ids 0, 1, 2 …")
    if sorted(vocabulary, key=vocabulary.get)[:4] != SPECIALS:
        raise ValueError(f"not a tokenizer of this project: ids 0–3 must be {' '.join(SPECIALS)}")
    if not all(0 < len(token) <= LONGEST_TOKEN for token in vocabulary):
        raise ValueError(f"not a tokenizer of this project: a token has 1 to {LONGEST_TOKEN} characters")
    if model.get("type") == "WordLevel":
        return _by_character(vocabulary)
    merges = model.get("merges")
    if not isinstance(merges, list) or not all(_is_merge(merge, vocabulary) for merge in merges):
        raise ValueError("not a tokenizer of this project: a merge must join two tokens into a third")
    merges = [tuple(merge) for merge in merges]
    if _is_byte_level(content):
        spelled = set("".join(vocabulary.keys() - set(SPECIALS)))
        if not spelled <= byte_level.ALPHABET.keys() <= vocabulary.keys():
            raise ValueError("not a tokenizer of this project: a byte-level vocabulary holds every byte and is made of bytes")
        backend = byte_level.by_bytes(algorithms.BPE(vocabulary, merges))
    else:
        backend = _by_piece(algorithms.BPE(vocabulary, merges, unk_token=SPECIALS[UNKNOWN]))
    backend.add_special_tokens([AddedToken(special, special=True, normalized=False) for special in SPECIALS])
    return backend


def _is_byte_level(content: dict[str, Any]) -> bool:
    splits = content.get("pre_tokenizer")
    return isinstance(splits, dict) and splits.get("type") == "ByteLevel"


def _is_merge(merge: Any, vocabulary: dict[str, int]) -> bool:
    whole = isinstance(merge, list) and len(merge) == 2 and all(isinstance(part, str) for part in merge)
    return whole and {*merge, "".join(merge)} <= vocabulary.keys()


def _alphabet(texts: Iterable[str], size: int = 150) -> list[str]:
    """Printable ASCII, the space sign, and the most frequent other characters; ties by code point, where the library's own
    limit picks by chance and a resumed run could meet another vocabulary."""
    always = [*string.printable.strip(), "▁"]
    seen = Counter(c for text in texts for c in text if c not in always and c != " ")
    return always + sorted(seen, key=lambda c: (-seen[c], c))[: size - len(always)]


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without the space that a word-initial piece carries, unless the space is all there is."""
    stripped = len(text[start:end]) - len(text[start:end].lstrip())
    return (start, end) if stripped == end - start else (start + stripped, end)


def _span(text: str, token: str, start: int, end: int, following: int) -> tuple[int, int]:
    """A token's place in the text, where the library's offsets need help: the space sign that it puts before the first word
    stands for nothing, and accents that the normaliser drew into a letter belong to it (the next token is at `following`)."""
    if token == "▁" and text[start:end].strip(" ▁\t\r\n"):
        return start, start
    while end < following and unicodedata.combining(text[end]):
        end += 1
    return _trimmed(text, start, end)


def joined(first: Encoding, second: Encoding) -> Encoding:
    """One row: the second text behind the first."""
    moved = (None if span is None else (span[0] + len(first.text), span[1] + len(first.text)) for span in second.offsets)
    return Encoding(
        first.text + second.text, (*first.ids, *second.ids), (*first.tokens, *second.tokens), (*first.offsets, *moved)
    )


def _with(e: Encoding, before: int | None = None, after: int | None = None) -> Encoding:
    head = () if before is None else (before,)
    tail = () if after is None else (after,)
    return Encoding(
        e.text,
        (*head, *e.ids, *tail),
        (*(SPECIALS[i] for i in head), *e.tokens, *(SPECIALS[i] for i in tail)),
        (*(None for _ in head), *e.offsets, *(None for _ in tail)),
    )
