"""The `permutation` task: tokens predicted in any order, each from those before it in that order.

Yang et al. 2019, §2.2. Documents are split as in the `language` task.
"""

import math
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import torch

from models.architectures import Model
from models.evaluation_mode import evaluating
from models.tasks.running_text import RunningText, by_hash, document_pieces
from models.training.batches import NO_LABEL, Batch, Ordered, bucket_by_length, collate_ordered
from models.training.ngrams import KneserNey
from models.training.objectives import LABEL_BATCH, tokens_in_order
from models.training.task import Case, DataError, Evaluation, Progress, no_progress

RANDOM, LEFT_TO_RIGHT = "random", "left to right"
IN_TWO = 0.1  # share of the documents followed by the file's next one as a second segment
PERMUTATION_EVAL_ROWS = 64  # per batch in `evaluate`


class PermutationTask(RunningText):
    """Rows with a factorisation order, newly drawn every epoch, or left to right.

    The last 1/`predict_last` of the order is predicted (K in §2.3); 1 for all of it.
    """

    name, metric = "permutation", "nats per token"
    purpose, pipeline_tag = "predicts the tokens of a text in any order", "text-generation"
    objective = staticmethod(tokens_in_order)

    def __init__(
        self,
        files: Sequence[str | Path] | str | Path,
        *,
        predict_last: int = 1,
        order: str = RANDOM,
        **settings: Any,
    ) -> None:
        if predict_last < 1:
            raise DataError(f"predict_last must be at least 1, not {predict_last}")
        if order not in (RANDOM, LEFT_TO_RIGHT):
            raise DataError(f"order must be {RANDOM} or {LEFT_TO_RIGHT}, not {order!r}")
        self.predict_last, self._order = predict_last, order
        super().__init__(files, **settings)

    @cached_property
    def _train(self) -> list[list[int]]:
        return [ids for ids in self.tokenizer.encode_many(self._of("train")) if ids]

    def batches(self, seed: int) -> Iterator[Sequence[Ordered]]:
        """Yield batches; every epoch draws new orders, cuts and pairs."""
        for epoch in count():
            rng = random.Random(f"{seed}/{epoch}")
            rows = list(self._rows(rng))
            for batch in bucket_by_length(
                [(len(first) + len(second) - 1,) for first, second in rows], self.max_tokens, rng
            ):
                yield [self._ordered(*rows[i], rng) for i in batch]

    def _rows(self, rng: random.Random) -> Iterator[tuple[list[int], list[int]]]:
        """Yield each document, or a piece of it, alone or with its neighbour as a second text."""
        documents = iter(self._train)
        for ids in documents:
            second = next(documents, []) if rng.random() < IN_TWO else []
            if len(ids) + len(second) <= self.n_ctx:
                yield ids, second
            else:
                yield from (
                    (piece, [])
                    for one in (ids, second)
                    if one
                    for piece in document_pieces(one, self.n_ctx, rng)
                )

    def _ordered(self, first: list[int], second: list[int], rng: random.Random) -> Ordered:
        """Return the two texts as one row with an order and labels."""
        ids, order = [*first, *second], list(range(len(first) + len(second)))
        if self._order == RANDOM:
            rng.shuffle(order)
        ranks = [0] * len(order)
        for rank, position in enumerate(order):
            ranks[position] = rank
        n_context = len(ids) - max(1, round(len(ids) / self.predict_last))
        labels = [
            token if rank >= n_context else NO_LABEL for token, rank in zip(ids, ranks, strict=True)
        ]
        return ids, ranks, [0] * len(first) + [1] * len(second), labels

    def collate(self, examples: Sequence[Ordered]) -> Batch:
        return collate_ordered(examples, self.tokenizer.pad_id)

    def _held_out_pieces(self, validation: bool) -> list[list[int]]:
        """Return the documents of a held-out set in the order of their hash, long ones cut."""
        documents = by_hash(self._of("validation" if validation else "test"))
        return [
            piece
            for ids in self.tokenizer.encode_many(documents)
            if ids
            for piece in document_pieces(ids, self.n_ctx)
        ]

    def validation(self) -> Sequence[Ordered]:
        rng = random.Random(0)
        return [self._ordered(piece, [], rng) for piece in self._held_out_pieces(True)[:2000]]

    def held_out(self, n: int | None = None, *, validation: bool = False) -> list[Case]:
        """Return held-out documents of 4 to 20 words, in the order of their hash.

        If there are none, the first 20 words of longer ones are returned.
        """
        documents = self._as_read("validation" if validation else "test")
        short = [document for document in documents if 4 <= len(document.split()) <= 20]
        beginnings = (re.match(r"(?:\S+\s+){19}\S+", document) for document in documents)
        texts = short or [beginning[0] for beginning in beginnings if beginning]
        return [Case(text, (text,)) for text in texts][:n]

    @torch.inference_mode()
    def evaluate(
        self, model: Model, n: int | None = None, *, validation: bool = False,
        progress: Progress = no_progress,
    ) -> Evaluation:  # fmt: skip
        """Return −ln p per token over the first n held-out pieces, in nats and bits.

        Each piece has a random order. The same weights from left to right and the frequencies of
        the training tokens are baselines.
        """
        rows, rng = self._held_out_pieces(validation)[:n], random.Random(0)
        totals: dict[str, float] = defaultdict(float)
        orders = [
            {RANDOM: rng.sample(range(len(ids)), len(ids)), LEFT_TO_RIGHT: range(len(ids))}
            for ids in rows
        ]
        shortest = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        with evaluating(model):
            for start in range(0, len(rows), PERMUTATION_EVAL_ROWS):
                part = shortest[start : start + PERMUTATION_EVAL_ROWS]
                for order in (RANDOM, LEFT_TO_RIGHT):
                    batch = self.collate(
                        [(rows[i], orders[i][order], [0] * len(rows[i]), rows[i]) for i in part]
                    ).to(model.device)
                    totals[order] += float(
                        self.objective(model(*batch.inputs), batch, 0.0)[LABEL_BATCH]
                    )
                progress(start + len(part), len(rows))
        totals["unigram"] = -sum(
            map(KneserNey(self._train, self.tokenizer.vocab_size, 1).log_prob, rows)
        )
        nats = {name: total / sum(map(len, rows)) for name, total in totals.items()}
        measures = {
            self.metric: nats[RANDOM],
            "bits per token": nats[RANDOM] / math.log(2),
            "left to right nats per token": nats[LEFT_TO_RIGHT],
            "unigram nats per token": nats["unigram"],
        }
        return Evaluation(measures, len(rows))
