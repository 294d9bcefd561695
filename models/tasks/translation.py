"""The `translation` task: any file of sentence pairs, split by a hash of the source (`split.py`): 2 % test, 1 % validation.
Either of the two can be a file of its own."""

import hashlib
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from models.tasks.pair_files import Files, TextPair, as_paths, fingerprint, names, read_pairs
from models.tasks.split import SETS, same_text, sets_of
from models.tokenizers.base import Tokenizer
from models.training.batches import Batch, Pair, bucketed, collate
from models.training.objectives import next_tokens
from models.training.task import Case, DataError

TATOEBA_LICENCE = "Sentences from tatoeba.org through manythings.org/anki, CC BY 2.0 FR"


class TranslationTask:
    """Sentence pairs of one file, or of two that agree line by line. `max_tokens` bounds a batch's padded source + target
    tokens. `validation_files` and `test_files` take the place of the hash; no source of theirs is trained on."""

    name, metric = "translation", "BLEU"
    objective = staticmethod(next_tokens)

    def __init__(
        self,
        files: Files,
        *,
        validation_files: Files | None = None,
        test_files: Files | None = None,
        tokenizer: Tokenizer | None = None,
        vocab_size: int = 6000,
        max_tokens: int = 4096,
        max_length: int = 96,
        licence: str | None = None,
    ) -> None:
        self.paths, self.max_tokens, self.max_length = as_paths(files), max_tokens, max_length
        known = (
            TATOEBA_LICENCE
            if self.paths[0].name.startswith("tatoeba")
            else f"not stated; that of {self.paths[0].name}"
        )
        self.licence = licence or known
        self._vocab_size, self._tokenizer = vocab_size, tokenizer
        both = {"test": test_files, "validation": validation_files}
        self._given = {name: as_paths(given) for name, given in both.items() if given is not None}
        self._split, self._unused = self._separated()

    def _separated(self) -> tuple[dict[str, list[TextPair]], dict[str, int]]:
        """Set → its pairs, and how many pairs are in no set, by the reason."""
        pairs, given = (
            read_pairs(self.paths),
            {name: read_pairs(paths) for name, paths in self._given.items()},
        )
        belongs = sets_of(
            (source for source, _ in pairs),
            {name: [s for s, _ in rows] for name, rows in given.items()},
        )
        split: dict[str, list[TextPair]] = {name: [] for name in SETS}
        unused = Counter(**{"left out": 0})
        for pair in pairs:
            where = belongs[pair[0]]
            if where in SETS:
                split[where].append(pair)
            else:
                unused[where] += 1
        split |= given
        if "validation" in given:
            tested = {same_text(source) for source, _ in split["test"]}
            split["validation"] = [
                pair for pair in given["validation"] if same_text(pair[0]) not in tested
            ]
            unused["left out"] += len(given["validation"]) - len(split["validation"])
        return split, dict(unused)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The given vocabulary, or one shared BPE learned on both sides of the training pairs."""
        if self._tokenizer is not None:
            return self._tokenizer
        return Tokenizer.bpe(
            (text for pair in self._pairs("train") for text in pair), self._vocab_size
        )

    @cached_property
    def _train(self) -> list[Pair]:
        return self._encoded("train")

    def _pairs(self, split: str) -> list[TextPair]:
        if not self._split[split]:
            n = sum(map(len, self._split.values()))
            raise DataError(
                f"{names(self.paths)}: {n} pairs are too few, none of them falls into the {split} split"
            )
        return self._split[split]

    def _encoded(self, split: str) -> list[Pair]:
        pairs = self._pairs(split)
        sources = self.tokenizer.encode_many([s for s, _ in pairs])
        targets = self.tokenizer.encode_many([t for _, t in pairs])
        both = zip(sources, targets, strict=True)
        kept = [(s, t) for s, t in both if max(len(s), len(t)) < self.max_length]
        if not kept:
            raise DataError(
                f"{names(self.paths)}: no {split} pair is shorter than {self.max_length} tokens"
            )
        return kept

    def batches(self, seed: int) -> Iterator[Sequence[Pair]]:
        lengths = [(len(s), len(t)) for s, t in self._train]
        epoch = 0
        while True:
            for batch in bucketed(lengths, self.max_tokens, random.Random(f"{seed}/{epoch}")):
                yield [self._train[i] for i in batch]
            epoch += 1

    def collate(self, examples: Sequence[Pair]) -> Batch:
        return collate(examples, self.tokenizer)

    def validation(self) -> Sequence[Pair]:
        return self._encoded("validation")[:2000]

    def held_out(self, n: int | None = None, *, validation: bool = False) -> list[Case]:
        """Every distinct source once, all its translations as references, in the order of their hash."""
        return as_cases(self._pairs("validation" if validation else "test"))[:n]

    def data(self) -> dict[str, Any]:
        own = {f"{name} file": fingerprint(paths) for name, paths in self._given.items()}
        return (
            fingerprint(self.paths)
            | {"pairs": {name: len(rows) for name, rows in self._split.items()}}
            | self._unused
            | own
        )


def as_cases(pairs: Iterable[TextPair]) -> list[Case]:
    """Every distinct source once, all its translations as references, in the order of their hash."""
    references: dict[str, list[str]] = {}
    for source, target in pairs:
        references.setdefault(source, []).append(target)
    order = sorted(references, key=lambda s: hashlib.blake2b(s.encode()).digest())
    return [Case(source, tuple(dict.fromkeys(references[source]))) for source in order]
