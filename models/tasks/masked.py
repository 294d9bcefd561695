"""The `mlm` task: masked tokens predicted from both sides, and next-sentence prediction.

Devlin et al. 2019, §3.1. Each line of a table is a text of its own, split by its hash. Any other
file is one text, cut into contiguous parts: the first 89 % for training, 1 % for validation, the
last 10 % for testing; its consecutive sentences form the pairs.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from models.architectures import Model
from models.architectures.bert import MASKED_OUTPUT, NEXT_SENTENCE
from models.evaluation_mode import evaluating
from models.tasks.pair_files import file_record, names
from models.tasks.running_text import TextFiles, by_hash
from models.tasks.text_files import is_table, split_documents
from models.tokenizers.base import Tokenizer
from models.training.batches import NO_LABEL, Batch, Masked, bucket_by_length, collate_masked
from models.training.likelihood import perplexity_of
from models.training.objectives import masked_tokens
from models.training.task import Case, DataError, Evaluation, Progress, no_progress

PREDICTED_SHARE = 0.15  # share of the tokens to predict
SHARE_HIDDEN, SHARE_REPLACED = (
    0.8,
    0.1,
)  # shares of these: [MASK]; another token; the rest is unchanged
SHARE_SHORT = 0.3  # share of the rows of running text that do not fill the context
TEXT_PASSES = 3  # passes over running text per epoch, because there is less of it than of sentences
MASKED_EVAL_ROWS = 64  # per batch in `evaluate`
FOLLOWS, FOREIGN = 0, 1  # the classes of a pair
_END = re.compile(r"[.!?]+[\"'”’)_]*\s+(?=[\"'“‘(_]*[A-Z0-9])")

MaskedRow = tuple[list[int], list[int], int]  # ids, segments, class


class MaskedTask(TextFiles):
    """Whole running texts, and tables of independent sentences."""

    name, metric = "mlm", "masked accuracy"
    purpose, pipeline_tag = "fills in masked words", "fill-mask"
    model_settings = ("tokenizer", "n_ctx")
    objective = staticmethod(masked_tokens)

    def __init__(self, files: Sequence[str | Path] | str | Path, **settings: Any) -> None:
        super().__init__(files, **settings)
        self._whole, _ = split_documents(
            [path for path in self.paths if not is_table(path)], "whole"
        )
        self._single, self._n_left_out = split_documents(
            [path for path in self.paths if is_table(path)], "lines"
        )

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The given vocabulary, or WordPiece learned on the training texts."""
        return self._tokenizer or Tokenizer.wordpiece(self._texts("train"), self._vocab_size)

    def _texts(self, part: str) -> list[str]:
        if not (texts := [*self._whole[part], *self._single[part]]):
            raise DataError(f"{names(self.paths)}: too little text: none is in the {part} split")
        return texts

    def _sentences(self, part: str) -> tuple[list[list[list[int]]], list[list[int]]]:
        """Return the sentences of each running text, and the independent ones, as ids."""
        self._texts(part)
        running = [self.tokenizer.encode_many(sentences(text)) for text in self._whole[part]]
        return [[s for s in text if s] for text in running], self.tokenizer.encode_many(
            self._single[part]
        )

    @cached_property
    def _train(self) -> tuple[list[list[list[int]]], list[list[int]]]:
        return self._sentences("train")

    def batches(self, seed: int) -> Iterator[Sequence[Masked]]:
        """Yield batches; every epoch draws new pairs, cuts and masks."""
        running, alone = self._train
        for epoch in count():
            rng = random.Random(f"{seed}/{epoch}")
            rows = [row for _ in range(TEXT_PASSES) for row in self._pairs(running, rng)] + [
                self._row(ids) for ids in alone
            ]
            for batch in bucket_by_length(
                [(len(ids) - 1,) for ids, *_ in rows], self.max_tokens, rng
            ):
                yield [self._hide(rows[i], rng) for i in batch]

    def _pairs(self, running: Sequence[list[list[int]]], rng: random.Random) -> Iterator[MaskedRow]:
        """Yield running text as rows of two pieces.

        Half of the second pieces follow the first, half begin at a sentence elsewhere.
        """
        for text in running:
            start = 0
            while start < len(text):
                room = self.n_ctx - 3
                room = rng.randint(min(8, room), room) if rng.random() < SHARE_SHORT else room
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
        """Return a piece that begins at some sentence, but not at the one that follows."""
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

    def _row(
        self, first: Sequence[int], second: Sequence[int] = (), kind: int = NO_LABEL
    ) -> MaskedRow:
        """Return [CLS] first [SEP] second [SEP], the longer piece cut until both fit."""
        first, second, special = list(first), list(second), 3 if second else 2
        while len(first) + len(second) + special > self.n_ctx:
            (first if len(first) > len(second) else second).pop()
        cls, sep = (self._special_id(name) for name in ("cls", "sep"))
        ids = [cls, *first, sep, *([*second, sep] if second else [])]
        return ids, [int(i >= len(first) + 2) for i in range(len(ids))], kind

    def _special_id(self, name: str) -> int:
        if (special := self.tokenizer.special(name)) is None:
            raise DataError(f"masked language modelling needs a vocabulary with [{name.upper()}]")
        return special[0]

    def _hide(self, row: MaskedRow, rng: random.Random, *, always: bool = False) -> Masked:
        """Return the row with tokens masked (all with `always`), replaced or unchanged."""
        ids, segments, kind = list(row[0]), row[1], row[2]
        places = [i for i, token in enumerate(ids) if not self.tokenizer.is_special(token)]
        chosen = (
            sorted(rng.sample(places, max(1, round(PREDICTED_SHARE * len(places)))))
            if places
            else []
        )
        labels = [ids[i] for i in chosen]
        for i in chosen:
            draw = rng.random()
            if always or draw < SHARE_HIDDEN:
                ids[i] = self._special_id("mask")
            elif draw < SHARE_HIDDEN + SHARE_REPLACED:
                ids[i] = rng.randrange(len(self.tokenizer.special_ids), self.tokenizer.vocab_size)
        return ids, segments, chosen, labels, (kind,)

    def collate(self, examples: Sequence[Masked]) -> Batch:
        return collate_masked(examples, self.tokenizer.pad_id)

    def _held_out_rows(self, validation: bool) -> list[Masked]:
        """Return the rows of a held-out set, always with the same tokens masked.

        Rows of running text and of sentences alternate.
        """
        running, alone = self._sentences("validation" if validation else "test")
        rng = random.Random(0)
        pairs = [self._hide(row, rng, always=True) for row in self._pairs(running, rng)]
        single = [self._hide(self._row(ids), rng, always=True) for ids in alone if ids]
        longer, shorter = (pairs, single) if len(pairs) > len(single) else (single, pairs)
        step = max(1, len(longer) // max(1, len(shorter)))
        turns = [[*longer[i * step : (i + 1) * step], row] for i, row in enumerate(shorter)]
        return [row for turn in turns for row in turn] + longer[len(shorter) * step :]

    def validation(self) -> Sequence[Masked]:
        return self._held_out_rows(True)[:2000]

    def held_out(self, n: int | None = None, *, validation: bool = False) -> list[Case]:
        """Return held-out sentences, by their hash, with one word masked: the reference."""
        part = "validation" if validation else "test"
        texts = [*self._single[part], *(s for text in self._whole[part] for s in sentences(text))]
        return [masked_word_case(text) for text in by_hash(texts) if 4 <= len(text.split()) <= 20][
            :n
        ]

    @torch.inference_mode()
    def evaluate(
        self, model: Model, n: int | None = None, *, validation: bool = False,
        progress: Progress = no_progress,
    ) -> Evaluation:  # fmt: skip
        """Return the accuracy and perplexity of masked tokens and the accuracy on sentence pairs.

        Over the first n held-out rows; accuracies are in percent. Baselines are the most frequent
        token, the token frequencies, and the same class for all pairs.
        """
        rows = self._held_out_rows(validation)[:n]
        n_correct, nats, total, n_correct_pairs = 0, 0.0, 0, 0
        hidden: Counter[int] = Counter()
        kinds = Counter(kind for *_, (kind,) in rows if kind != NO_LABEL)
        with evaluating(model):
            for start in range(0, len(rows), MASKED_EVAL_ROWS):
                batch = self.collate(rows[start : start + MASKED_EVAL_ROWS]).to(model.device)
                answers, real = model(*batch.inputs), batch.labels != NO_LABEL
                logits, labels = answers[MASKED_OUTPUT][real].float(), batch.labels[real]
                n_correct += int((logits.argmax(-1) == labels).sum())
                nats += float(F.cross_entropy(logits, labels, reduction="sum"))
                total += len(labels)
                hidden.update(labels.tolist())
                paired = batch.classes != NO_LABEL
                n_correct_pairs += int(
                    (answers[NEXT_SENTENCE].argmax(-1) == batch.classes)[paired].sum()
                )
                progress(min(start + MASKED_EVAL_ROWS, len(rows)), len(rows))
        measures = {
            self.metric: 100 * n_correct / total,
            "masked perplexity": perplexity_of(nats / total),
        }
        measures |= self._unigram(hidden)
        parts = {"masked token": total}
        if kinds:
            parts["sentence pair"] = kinds.total()
            measures["next-sentence accuracy"] = 100 * n_correct_pairs / kinds.total()
            measures["always-the-same next-sentence accuracy"] = (
                100 * max(kinds.values()) / kinds.total()
            )
        return Evaluation(measures, len(rows), parts=parts)

    def _unigram(self, hidden: Counter[int]) -> dict[str, float]:
        """Return the measures of the training tokens' frequencies, with add-one smoothing."""
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
            "unigram masked perplexity": perplexity_of(nats / total),
        }

    def data(self) -> dict[str, Any]:
        split = {name: [*self._whole[name], *self._single[name]] for name in self._whole}
        counts = {name: len(texts) for name, texts in split.items()}
        sizes = {name: sum(map(len, texts)) for name, texts in split.items()}
        return file_record(self.paths) | {
            "documents": counts,
            "characters": sizes,
            "left out": self._n_left_out,
        }


def sentences(text: str) -> list[str]:
    """Return the sentences of running text, without line breaks."""
    plain = " ".join(text.split())
    ends = [0, *(match.end() for match in _END.finditer(plain)), len(plain)]
    return [part for a, b in pairwise(ends) if (part := plain[a:b].strip())]


def masked_word_case(text: str) -> Case:
    """Return the text with its longest word masked; ties go to the first."""
    word = max(re.findall(r"[^\W\d_]+", text), key=len, default="")
    return (
        Case(re.sub(rf"\b{word}\b", "[MASK]", text, count=1), (word,))
        if word
        else Case(text, (text,))
    )


def _flat(parts: Sequence[Sequence[int]]) -> list[int]:
    return [i for part in parts for i in part]
