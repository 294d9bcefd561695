"""The `translation` task: any tab-separated file of sentence pairs (`source \\t target`, more columns ignored), `.gz` too.

The split is by a hash of the source sentence, so that training and test never share one: 2 % test, 1 % validation.
"""

import gzip
import hashlib
import random
import unicodedata
import zlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from models.batches import Pair, bucketed
from models.tasks.base import Case, DataError
from models.tokenizer import Tokenizer

TATOEBA_LICENCE = "Sentences from tatoeba.org through manythings.org/anki, CC BY 2.0 FR"


def read_pairs(path: str | Path) -> list[tuple[str, str]]:
    """The file's (source, target) pairs. Raises DataError saying what is wrong and in which line."""
    path = Path(path)
    opener = gzip.open if path.suffix == ".gz" else open
    pairs = []
    try:
        with opener(path, "rt", encoding="utf-8-sig") as lines:   # -sig: a byte order mark is no letter
            for number, line in enumerate(lines, 1):
                columns = line.rstrip("\n").split("\t")
                if not line.strip():
                    continue
                if len(columns) < 2 or not columns[0].strip() or not columns[1].strip():
                    raise DataError(f"{path}, line {number}: wanted source, tab, target; came {line.strip()[:60]!r}")
                pairs.append((columns[0].strip(), columns[1].strip()))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start} of a block)") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    if not pairs:
        raise DataError(f"{path}: holds no sentence pairs")
    return pairs


def split_of(source: str) -> str:
    """ "test", "validation" or "train", by a hash of the sentence without case and spacing."""
    plain = " ".join(unicodedata.normalize("NFKC", source).casefold().split())
    bucket = int.from_bytes(hashlib.blake2b(plain.encode(), digest_size=8).digest(), "big") % 100
    return "test" if bucket < 2 else "validation" if bucket == 2 else "train"


class TranslationTask:
    """Sentence pairs of one file. `max_tokens` bounds a batch's padded source + target tokens."""

    name, metric = "translation", "BLEU"

    def __init__(
        self,
        path: str | Path,
        *,
        tokenizer: Tokenizer | None = None,
        vocab_size: int = 6000,
        max_tokens: int = 4096,
        max_length: int = 96,
        licence: str | None = None,
    ) -> None:
        self.path, self.max_tokens, self.max_length = Path(path), max_tokens, max_length
        known = TATOEBA_LICENCE if self.path.name.startswith("tatoeba") else f"not stated; that of {self.path.name}"
        self.licence = licence or known
        self._vocab_size, self._tokenizer = vocab_size, tokenizer
        self._split: dict[str, list[tuple[str, str]]] = {"train": [], "validation": [], "test": []}
        for pair in read_pairs(path):
            self._split[split_of(pair[0])].append(pair)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The given vocabulary, or one shared BPE learned on both sides of the training pairs."""
        if self._tokenizer is not None:
            return self._tokenizer
        return Tokenizer.bpe((text for pair in self._pairs("train") for text in pair), self._vocab_size)

    @cached_property
    def _train(self) -> list[Pair]:
        return self._encoded("train")

    def _pairs(self, split: str) -> list[tuple[str, str]]:
        if not self._split[split]:
            n = sum(map(len, self._split.values()))
            raise DataError(f"{self.path}: {n} pairs are too few, none of them falls into the {split} split")
        return self._split[split]

    def _encoded(self, split: str) -> list[Pair]:
        pairs = self._pairs(split)
        sources = self.tokenizer.encode_many([s for s, _ in pairs])
        targets = self.tokenizer.encode_many([t for _, t in pairs])
        both = zip(sources, targets, strict=True)
        kept = [(s, t) for s, t in both if max(len(s), len(t)) < self.max_length]
        if not kept:
            raise DataError(f"{self.path}: no {split} pair is shorter than {self.max_length} tokens")
        return kept

    def batches(self, seed: int) -> Iterator[Sequence[Pair]]:
        lengths = [(len(s), len(t)) for s, t in self._train]
        epoch = 0
        while True:
            for batch in bucketed(lengths, self.max_tokens, random.Random(f"{seed}/{epoch}")):
                yield [self._train[i] for i in batch]
            epoch += 1

    def validation(self) -> Sequence[Pair]:
        return self._encoded("validation")[:2000]

    def held_out(self, n: int | None = None, *, validation: bool = False) -> list[Case]:
        """Every distinct source once, all its translations as references, in the order of their hash."""
        references: dict[str, list[str]] = {}
        for source, target in self._pairs("validation" if validation else "test"):
            references.setdefault(source, []).append(target)
        order = sorted(references, key=lambda s: hashlib.blake2b(s.encode()).digest())
        return [Case(s, tuple(dict.fromkeys(references[s]))) for s in order[:n]]

    def data(self) -> dict[str, Any]:
        digest = hashlib.sha256(self.path.read_bytes()).hexdigest()
        return {"file": self.path.name, "sha256": digest, "pairs": {k: len(v) for k, v in self._split.items()}}
