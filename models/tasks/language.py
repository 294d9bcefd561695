"""The `language` task: running text, every token predicted from those before it in its document.

Documents that are lines or paragraphs are split by a hash (`split.py`): 2 % test, 1 % validation. A
file that is one document is cut into contiguous parts: the first 89 % for training, 1 % for
validation, the last 10 % for testing.
"""

import random
import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from models.architectures import Model
from models.tasks.running_text import RunningText, by_hash, document_pieces
from models.training.batches import Batch, Window, bucket_by_length, collate_windows
from models.training.likelihood import baselines, likelihoods
from models.training.objectives import next_tokens
from models.training.task import Case, Evaluation, Passage, Progress, no_progress

N_BEGINNING = 5  # words of a held-out document used as a prompt


class LanguageTask(RunningText):
    """Documents, each piece of which begins with <s>."""

    name, metric = "language", "perplexity"
    purpose, pipeline_tag = "continues a text", "text-generation"
    objective = staticmethod(next_tokens)

    def labels(self, split: str) -> list[list[int]]:
        """Return the labels of each document of a set: its tokens and </s>."""
        end = self._end_id
        return [[*ids, end] for ids in self.tokenizer.encode_many(self._of(split))]

    @property
    def _end_id(self) -> int:
        if (end_id := self.tokenizer.end_id) is None:
            raise ValueError("a language model's vocabulary must have </s>")
        return end_id

    @cached_property
    def _train(self) -> list[list[int]]:
        return self.labels("train")

    def batches(self, seed: int) -> Iterator[Sequence[Window]]:
        """Yield batches; every epoch cuts long documents at different places."""
        epoch = 0
        while True:
            rng = random.Random(f"{seed}/{epoch}")
            windows = [window for labels in self._train for window in self._cut(labels, rng)]
            for batch in bucket_by_length(
                [(len(labels) - 1,) for _, labels in windows], self.max_tokens, rng
            ):
                yield [windows[i] for i in batch]
            epoch += 1

    def collate(self, examples: Sequence[Window]) -> Batch:
        return collate_windows(examples, self.tokenizer.pad_id)

    def _cut(self, labels: Sequence[int], rng: random.Random | None = None) -> Iterator[Window]:
        if (start_id := self.tokenizer.start_id) is None:
            raise ValueError("a language model's vocabulary must have <s>")
        return cut_document(labels, self.n_ctx, start_id, rng)

    def validation(self) -> Sequence[Window]:
        return [window for labels in self.labels("validation") for window in self._cut(labels)][
            :2000
        ]

    def passages(self, n: int | None = None, *, validation: bool = False) -> list[Passage]:
        """Return the first n pieces of the test or validation documents, by the documents' hash."""
        documents = by_hash(self._of("validation" if validation else "test"))
        return [passage for document in documents for passage in self._passages(document)][:n]

    def evaluate(
        self,
        model: Model,
        n: int | None = None,
        *,
        validation: bool = False,
        progress: Progress = no_progress,
    ) -> Evaluation:
        """Return the likelihood of the first n held-out passages, with token-counting baselines."""
        passages = self.passages(n, validation=validation)
        return Evaluation(
            likelihoods(model, passages, progress),
            len(passages),
            case_noun="held-out passage",
            parts={"token": sum(len(passage.labels) for passage in passages)},
            baselines=lambda: baselines(self._train, passages, self.tokenizer.vocab_size),
        )

    def _passages(self, document: str) -> list[Passage]:
        encoding, end_id = self.tokenizer.encode(document), self._end_id
        passages: list[Passage] = []
        starts = [span[0] for span in encoding.offsets[:: self.n_ctx] if span is not None]
        starts[0] = 0  # a space there belongs to the first token
        for i, (start, end) in enumerate(zip(starts, [*starts[1:], len(document)], strict=True)):
            ids = encoding.ids[i * self.n_ctx : (i + 1) * self.n_ctx]
            text = document[start:end]
            passages.append(Passage(ids, len(text), len(text.encode())))
        last = passages.pop()
        if len(last.labels) == self.n_ctx:
            return [*passages, last, Passage((end_id,), 0, 0)]
        return [*passages, Passage((*last.labels, end_id), last.n_characters, last.n_bytes)]

    def held_out(self, n: int | None = None, *, validation: bool = False) -> list[Case]:
        """Return test or validation documents, by their hash, as prompt and continuation.

        The paragraphs of a whole text count as documents.
        """
        documents = self._as_read("validation" if validation else "test")
        return [
            continuation_case(document)
            for document in documents
            if len(document.split()) > N_BEGINNING
        ][:n]


def cut_document(
    labels: Sequence[int], n_ctx: int, start_id: int, rng: random.Random | None = None
) -> Iterator[Window]:
    """Yield a document as (inputs, labels) of at most `n_ctx` positions.

    The inputs begin with `start_id`; `rng` as in `document_pieces`.
    """
    for piece in document_pieces(labels, n_ctx, rng):
        yield [start_id, *piece[:-1]], piece


def continuation_case(document: str) -> Case:
    """Return the first words as the source, the whole document as the reference."""
    beginning = re.match(rf"(?:\S+\s+){{{N_BEGINNING - 1}}}\S+", document)
    if beginning is None:
        raise ValueError(f"a document must have at least {N_BEGINNING} words: {document[:60]!r}")
    return Case(beginning[0], (document,), (document,))
