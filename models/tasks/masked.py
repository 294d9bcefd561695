"""The `mlm` task: running text in which some tokens are hidden, to be guessed from both sides; and of two pieces of text whether
the second follows the first (Devlin et al. 2019, §3.1).

Of a table each line is a text of its own, split by its hash. Any other file is one text, cut into neighbours: the first 89 %
to train on, 1 % to validate on, the last 10 % to test on; its sentences follow each other, so pairs are made of them.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from models.architectures.bert import BERT, MASKED, NEXT_SENTENCE
from models.tasks.pair_files import fingerprint, names
from models.tasks.running_text import TextFiles, by_hash
from models.tasks.text_files import is_table, separated
from models.tokenizers.base import Tokenizer
from models.training.batches import NO_LABEL, Batch, Masked, bucketed, collate_masked
from models.training.objectives import masked_tokens
from models.training.task import Case, DataError

SHARE = 0.15  # of the tokens that are to be guessed
HIDDEN, REPLACED = 0.8, 0.1  # of these: [MASK]; another token; the rest stays as it is
SHORT = 0.3  # of the rows of running text that are shorter than the model reads
AGAIN = 3  # times that an epoch goes through running text, of which there is less than of sentences
ROWS = 64  # read at once
FOLLOWS, FOREIGN = 0, 1  # the classes of a pair
_END = re.compile(r"[.!?]+[\"'”’)_]*\s+(?=[\"'“‘(_]*[A-Z0-9])")

Row = tuple[list[int], list[int], int]  # ids, segments, class


class MaskedTask(TextFiles):
    """Whole running texts, and tables of sentences that stand alone."""

    name, metric = "mlm", "masked accuracy"
    objective = staticmethod(masked_tokens)

    def __init__(self, files: Sequence[str | Path] | str | Path, **settings: Any) -> None:
        super().__init__(files, **settings)
        self._whole, _ = separated([path for path in self.paths if not is_table(path)], "whole")
        self._single, self._n_left_out = separated(
            [path for path in self.paths if is_table(path)], "lines"
        )

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The given vocabulary, or WordPiece learned on the training texts."""
        return self._tokenizer or Tokenizer.wordpiece(self._texts("train"), self._vocab_size)

    def _texts(self, part: str) -> list[str]:
        if not (found := [*self._whole[part], *self._single[part]]):
            raise DataError(
                f"{names(self.paths)}: too little text, none of it falls into the {part} split"
            )
        return found

    def _sentences(self, part: str) -> tuple[list[list[list[int]]], list[list[int]]]:
        """The sentences of each running text, and those that stand alone, as ids."""
        self._texts(part)
        running = [self.tokenizer.encode_many(sentences(text)) for text in self._whole[part]]
        return [[s for s in text if s] for text in running], self.tokenizer.encode_many(
            self._single[part]
        )

    @cached_property
    def _train(self) -> tuple[list[list[list[int]]], list[list[int]]]:
        return self._sentences("train")

    def batches(self, seed: int) -> Iterator[Sequence[Masked]]:
        """Every epoch pairs, cuts and hides anew."""
        running, alone = self._train
        for epoch in count():
            rng = random.Random(f"{seed}/{epoch}")
            rows = [row for _ in range(AGAIN) for row in self._pairs(running, rng)] + [
                self._row(ids) for ids in alone
            ]
            for batch in bucketed([(len(ids) - 1,) for ids, *_ in rows], self.max_tokens, rng):
                yield [self._hidden(rows[i], rng) for i in batch]

    def _pairs(self, running: Sequence[list[list[int]]], rng: random.Random) -> Iterator[Row]:
        """Running text as rows of two pieces: half of the second ones follow the first, half begin at a sentence elsewhere."""
        for text in running:
            start = 0
            while start < len(text):
                room = self.n_ctx - 3
                room = rng.randint(min(8, room), room) if rng.random() < SHORT else room
                end, n = start, 0
                while end < len(text) and (end == start or n + len(text[end]) <= room):
                    n += len(text[end])
                    end += 1
                if end - start < 2:
                    yield self._row(text[start])
                    start = end
                    continue
                middle = rng.randint(start + 1, end - 1)
                first, second, kind = _flat(text[start:middle]), _flat(text[middle:end]), FOLLOWS
                if rng.random() < 0.5:
                    second, kind, end = (
                        self._elsewhere(running, text, middle, room - len(first), rng),
                        FOREIGN,
                        middle,
                    )
                yield self._row(first, second, kind)
                start = end

    @staticmethod
    def _elsewhere(
        running: Sequence[list[list[int]]],
        text: list[list[int]],
        here: int,
        room: int,
        rng: random.Random,
    ) -> list[int]:
        """A piece that begins at some sentence of the texts, but not at the one that follows."""
        other = rng.choices(running, [len(each) for each in running])[0]
        places = [
            place
            for place, sentence in enumerate(other)
            if len(sentence) <= room and (other is not text or place != here)
        ]
        start = rng.choice(places or range(len(other)))
        piece = list(other[start])
        for sentence in other[start + 1 :]:
            if len(piece) + len(sentence) > room:
                break
            piece += sentence
        return piece

    def _row(self, first: Sequence[int], second: Sequence[int] = (), kind: int = NO_LABEL) -> Row:
        """[CLS] first [SEP] second [SEP], the longer piece cut until both fit."""
        first, second, special = list(first), list(second), 3 if second else 2
        while len(first) + len(second) + special > self.n_ctx:
            (first if len(first) > len(second) else second).pop()
        cls, sep = self.tokenizer.cls_id, self.tokenizer.sep_id
        ids = [cls, *first, sep, *([*second, sep] if second else [])]
        return ids, [int(i >= len(first) + 2) for i in range(len(ids))], kind

    def _hidden(self, row: Row, rng: random.Random, *, always: bool = False) -> Masked:
        """The row with tokens hidden, replaced or left as they are, all of which are to be guessed; `always`: hidden."""
        ids, segments, kind = list(row[0]), row[1], row[2]
        places = [i for i, token in enumerate(ids) if not self.tokenizer.is_special(token)]
        chosen = sorted(rng.sample(places, max(1, round(SHARE * len(places))))) if places else []
        labels = [ids[i] for i in chosen]
        for i in chosen:
            draw = rng.random()
            if always or draw < HIDDEN:
                ids[i] = self.tokenizer.mask_id
            elif draw < HIDDEN + REPLACED:
                ids[i] = rng.randrange(len(self.tokenizer.special_ids), self.tokenizer.vocab_size)
        return ids, segments, chosen, labels, (kind,)

    def collate(self, examples: Sequence[Masked]) -> Batch:
        return collate_masked(examples, self.tokenizer.pad_id)

    def _held_out_rows(self, validation: bool) -> list[Masked]:
        """The rows of a held-out set, always with the same tokens hidden, by turns of running text and of sentences."""
        running, alone = self._sentences("validation" if validation else "test")
        rng = random.Random(0)
        pairs = [self._hidden(row, rng, always=True) for row in self._pairs(running, rng)]
        single = [self._hidden(self._row(ids), rng, always=True) for ids in alone if ids]
        longer, shorter = (pairs, single) if len(pairs) > len(single) else (single, pairs)
        step = max(1, len(longer) // max(1, len(shorter)))
        turns = [[*longer[i * step : (i + 1) * step], row] for i, row in enumerate(shorter)]
        return [row for turn in turns for row in turn] + longer[len(shorter) * step :]

    def validation(self) -> Sequence[Masked]:
        return self._held_out_rows(True)[:2000]

    def held_out(self, n: int | None = None, *, validation: bool = False) -> list[Case]:
        """Held-out sentences with one word hidden, which is the reference, in the order of their hash."""
        part = "validation" if validation else "test"
        texts = [*self._single[part], *(s for text in self._whole[part] for s in sentences(text))]
        return [as_case(text) for text in by_hash(texts) if 4 <= len(text.split()) <= 20][:n]

    @torch.inference_mode()
    def evaluate(
        self, model: BERT, n: int | None = None, *, validation: bool = False,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> dict[str, float]:  # fmt: skip
        """Over the first n held-out rows: the share of hidden tokens guessed, their perplexity, and the share of pairs told
        apart, shares in percent; beside them what the most frequent token, the tokens' frequencies and one answer for all pairs
        come to."""
        model.eval()
        rows, right, nats, total, apart = self._held_out_rows(validation)[:n], 0, 0.0, 0, 0
        hidden: Counter[int] = Counter()
        kinds = Counter(kind for *_, (kind,) in rows if kind != NO_LABEL)
        for start in range(0, len(rows), ROWS):
            batch = self.collate(rows[start : start + ROWS]).to(model.device)
            answers, real = model(*batch.inputs), batch.labels != NO_LABEL
            logits, labels = answers[MASKED][real].float(), batch.labels[real]
            right += int((logits.argmax(-1) == labels).sum())
            nats += float(F.cross_entropy(logits, labels, reduction="sum"))
            total += len(labels)
            hidden.update(labels.tolist())
            paired = batch.classes != NO_LABEL
            apart += int((answers[NEXT_SENTENCE].argmax(-1) == batch.classes)[paired].sum())
            progress(min(start + ROWS, len(rows)), len(rows))
        measures = {
            self.metric: 100 * right / total,
            "masked perplexity": float(torch.tensor(nats / total).exp()),
        }
        measures |= self._unigram(hidden)
        if kinds:
            measures["next-sentence accuracy"] = 100 * apart / kinds.total()
            measures["always-the-same next-sentence accuracy"] = (
                100 * max(kinds.values()) / kinds.total()
            )
        return measures

    def _unigram(self, hidden: Counter[int]) -> dict[str, float]:
        """What the frequencies of the training tokens come to on these hidden ones, each counted once more than it occurs."""
        running, alone = self._train
        counts = torch.ones(self.tokenizer.vocab_size)
        every = torch.tensor(
            [i for sentences_ in (*running, alone) for sentence in sentences_ for i in sentence]
        )
        counts.index_add_(0, every, torch.ones(len(every)))
        log_probs, total = (counts / counts.sum()).log(), hidden.total()
        nats = -sum(n * float(log_probs[i]) for i, n in hidden.items())
        return {
            "unigram masked accuracy": 100 * hidden[int(counts.argmax())] / total,
            "unigram masked perplexity": float(torch.tensor(nats / total).exp()),
        }

    def data(self) -> dict[str, Any]:
        split = {name: [*self._whole[name], *self._single[name]] for name in self._whole}
        counts = {name: len(texts) for name, texts in split.items()}
        sizes = {name: sum(map(len, texts)) for name, texts in split.items()}
        return fingerprint(self.paths) | {
            "documents": counts,
            "characters": sizes,
            "left out": self._n_left_out,
        }


def sentences(text: str) -> list[str]:
    """The sentences of running text, each on one line."""
    plain = " ".join(text.split())
    ends = [0, *(found.end() for found in _END.finditer(plain)), len(plain)]
    return [part for a, b in pairwise(ends) if (part := plain[a:b].strip())]


def as_case(text: str) -> Case:
    """The text with its longest word hidden, the first of equals."""
    word = max(re.findall(r"[^\W\d_]+", text), key=len, default="")
    return (
        Case(re.sub(rf"\b{word}\b", "[MASK]", text, count=1), (word,))
        if word
        else Case(text, (text,))
    )


def _flat(parts: Sequence[Sequence[int]]) -> list[int]:
    return [i for part in parts for i in part]
