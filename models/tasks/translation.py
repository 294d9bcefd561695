"""The `translation` task: sentence pairs, split by a hash of the source (`split.py`).

2 % are for testing and 1 % for validation; each of these can be a file of its own.
"""

import hashlib
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from models.number_text import how_many
from models.tasks.pair_files import Files, TextPair, as_paths, file_record, names, read_pairs
from models.tasks.split import SPLIT_SETS, same_text, sets_of
from models.tokenizers.base import Tokenizer
from models.training.batches import Batch, Pair, bucket_by_length, collate
from models.training.evaluation import TextTask
from models.training.objectives import next_tokens
from models.training.task import Case, DataError

TATOEBA_LICENCE = "Sentences from tatoeba.org through manythings.org/anki, CC BY 2.0 FR"


class TranslationTask(TextTask):
    """Sentence pairs of one file, or of two aligned ones.

    `max_tokens` is the limit of padded source + target tokens in a batch. `validation_files` and
    `test_files` replace the hash; their sources are excluded from training.
    """

    name, metric = "translation", "BLEU"
    purpose, pipeline_tag = "translates text", "translation"
    objective = staticmethod(next_tokens)
    model_settings = ("tokenizer",)

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
        shipped = (
            TATOEBA_LICENCE
            if self.paths[0].name.startswith("tatoeba")
            else f"not stated; that of {self.paths[0].name}"
        )
        self.licence = licence or shipped
        self._vocab_size, self._tokenizer = vocab_size, tokenizer
        held_out_files = {"test": test_files, "validation": validation_files}
        self._held_out_paths = {
            name: as_paths(files) for name, files in held_out_files.items() if files is not None
        }
        self._split, self._unused = self._separate()

    def _separate(self) -> tuple[dict[str, list[TextPair]], dict[str, int]]:
        """Return the pairs of each set, and the number of pairs in no set, by reason."""
        pairs = read_pairs(self.paths)
        from_files = {name: read_pairs(paths) for name, paths in self._held_out_paths.items()}
        belongs = sets_of(
            (source for source, _ in pairs),
            {name: [s for s, _ in rows] for name, rows in from_files.items()},
        )
        split: dict[str, list[TextPair]] = {name: [] for name in SPLIT_SETS}
        unused = Counter(**{"left out": 0})
        for pair in pairs:
            where = belongs[pair[0]]
            if where in SPLIT_SETS:
                split[where].append(pair)
            else:
                unused[where] += 1
        split |= from_files
        if "validation" in from_files:
            tested = {same_text(source) for source, _ in split["test"]}
            split["validation"] = [
                pair for pair in from_files["validation"] if same_text(pair[0]) not in tested
            ]
            unused["left out"] += len(from_files["validation"]) - len(split["validation"])
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
        return self._encode_pairs("train")

    @property
    def n_too_long(self) -> int:
        """The number of training pairs left out because a side has `max_length` or more tokens."""
        return len(self._pairs("train")) - len(self._train)

    def _pairs(self, split: str) -> list[TextPair]:
        if not self._split[split]:
            n = sum(map(len, self._split.values()))
            raise DataError(
                f"{names(self.paths)}: {how_many(n, 'pair')}, too few for a {split} split"
            )
        return self._split[split]

    def _encode_pairs(self, split: str) -> list[Pair]:
        pairs = self._pairs(split)
        sources = self.tokenizer.encode_many([s for s, _ in pairs])
        targets = self.tokenizer.encode_many([t for _, t in pairs])
        rows: list[Pair] = [
            (source, target)
            for source, target in zip(sources, targets, strict=True)
            if max(len(source), len(target)) < self.max_length
        ]
        if not rows:
            raise DataError(
                f"{names(self.paths)}: no {split} pair is shorter than {self.max_length} tokens"
            )
        return rows

    def batches(self, seed: int) -> Iterator[Sequence[Pair]]:
        lengths = [(len(s), len(t)) for s, t in self._train]
        epoch = 0
        while True:
            for batch in bucket_by_length(
                lengths, self.max_tokens, random.Random(f"{seed}/{epoch}")
            ):
                yield [self._train[i] for i in batch]
            epoch += 1

    def collate(self, examples: Sequence[Pair]) -> Batch:
        return collate(examples, self.tokenizer)

    def validation(self) -> Sequence[Pair]:
        return self._encode_pairs("validation")[:2000]

    def held_out(self, n: int | None = None, *, validation: bool = False) -> list[Case]:
        """Return distinct sources with all translations as references, ordered by hash."""
        return as_cases(self._pairs("validation" if validation else "test"))[:n]

    def data(self) -> dict[str, Any]:
        held_out_files = {
            f"{name} file": file_record(paths) for name, paths in self._held_out_paths.items()
        }
        return (
            file_record(self.paths)
            | {"pairs": {name: len(rows) for name, rows in self._split.items()}}
            | self._unused
            | held_out_files
        )


def as_cases(pairs: Iterable[TextPair]) -> list[Case]:
    """Return distinct sources with all translations as references, in the order of their hash."""
    references: dict[str, list[str]] = {}
    for source, target in pairs:
        references.setdefault(source, []).append(target)
    order = sorted(references, key=lambda s: hashlib.blake2b(s.encode()).digest())
    return [
        Case(source, tuple(dict.fromkeys(references[source])), (source, references[source][0]))
        for source in order
    ]
