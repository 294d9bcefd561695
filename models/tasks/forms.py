"""Forms of a generated example: what a family of models reads from it, and what it predicts.

An encoder-decoder reads the source and writes the answer; GPT continues the source; BERT fills in
letters that are masked in both together, and XLNet predicts them in an order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from models.architectures import Model
from models.architectures.base import MASKED_OUTPUT
from models.architectures.xlnet import TOKEN_IN_ORDER
from models.evaluation_mode import evaluating
from models.tokenizers.base import Tokenizer
from models.tokenizers.special_tokens import BERT_SPECIAL
from models.training import batches, objectives
from models.training.batches import NO_LABEL, Batch, Masked, Pair, Window
from models.training.objectives import Losses
from models.training.task import Case, Progress, no_progress

PAIRED_FORM, ONE_TEXT_FORM = "source and target", "one text"
MASKED_FORM, ORDERED = "masked letters", "letters in an order"
FORM_EVAL_ROWS = 250  # per batch in `accuracy`
LETTERS_MASKED_SHARE = 0.1  # of the letters of a text that are predicted at once, at least one


@dataclass(frozen=True)
class Strings:
    """A source, its answer, and what joins them into one text.

    The letters at `places` of that text can be known from the others: all of the answer by default.
    `ends` is False for a text that could continue forever.
    """

    source: str
    answer: str
    joint: str = "="
    places: tuple[int, ...] | None = None
    ends: bool = True

    @property
    def prompt(self) -> str:
        """The text before the answer."""
        return self.source + self.joint

    @property
    def text(self) -> str:
        """Source and answer as one text."""
        return self.prompt + self.answer

    @property
    def known(self) -> Sequence[int]:
        """The places of the letters that can be known."""
        return range(len(self.prompt), len(self.text)) if self.places is None else self.places

    def predicted(self, rng: Random) -> list[int]:
        """Return the places of a few of these letters, in a random order."""
        n = max(1, round(LETTERS_MASKED_SHARE * len(self.text)))
        return rng.sample(self.known, min(n, len(self.known)))


class ReadingForm:
    """A way to read examples: the answer is written if `writes`, else letters are predicted."""

    metric = "exact match"
    writes = True
    pipeline_tag = "text2text-generation"

    def tokenizer(self, alphabet: str) -> Tokenizer:
        """Return the vocabulary of these characters."""
        return Tokenizer.characters(alphabet)

    def examples(self, strings: Sequence[Strings], tokenizer: Tokenizer, rng: Random) -> list[Any]:
        """Return the examples of a batch; `rng` draws which letters are predicted."""
        raise NotImplementedError

    def collate(self, examples: Sequence[Any], tokenizer: Tokenizer) -> Batch:
        """Return examples as a padded batch."""
        raise NotImplementedError

    def objective(self, answers: Any, batch: Batch, smoothing: float) -> Losses:
        """Return the losses of a batch (models.training.task.Task.objective)."""
        return objectives.next_tokens(answers, batch, smoothing)

    def case(self, strings: Strings, rng: Random) -> Case:
        """Return a held-out case."""
        raise NotImplementedError

    def logits(self, answers: Any) -> Float[Tensor, "batch m vocab"]:
        """Return the logits at the labels of a batch."""
        return answers


class PairForm(ReadingForm):
    """An encoder-decoder reads the source and writes the answer."""

    def examples(self, strings: Sequence[Strings], tokenizer: Tokenizer, rng: Random) -> list[Pair]:
        targets = tokenizer.encode_many([each.answer for each in strings])
        return list(zip(tokenizer.encode_many([s.source for s in strings]), targets, strict=True))

    def collate(self, examples: Sequence[Pair], tokenizer: Tokenizer) -> Batch:
        return batches.collate(examples, tokenizer)

    def case(self, strings: Strings, rng: Random) -> Case:
        return Case(strings.source, (strings.answer,), (strings.source, strings.answer))


class ContinuationForm(ReadingForm):
    """A language model reads the source and continues it; only the answer is learned."""

    pipeline_tag = "text-generation"

    def examples(
        self, strings: Sequence[Strings], tokenizer: Tokenizer, rng: Random
    ) -> list[Window]:
        start, end = tokenizer.special_ids["start"], tokenizer.special_ids["end"]
        every = tokenizer.encode_many([each.text for each in strings])
        examples: list[Window] = []
        for each, ids in zip(strings, every, strict=True):
            labels = [NO_LABEL] * len(ids) + [end if each.ends else NO_LABEL]
            for place in each.known:
                labels[place] = ids[place]
            examples.append(([start, *ids], labels))
        return examples

    def collate(self, examples: Sequence[Window], tokenizer: Tokenizer) -> Batch:
        return batches.collate_windows(examples, tokenizer.pad_id)

    def case(self, strings: Strings, rng: Random) -> Case:
        return Case(strings.prompt, (strings.answer,), (strings.text,))


class MaskedForm(ReadingForm):
    """BERT reads both as one text and fills in masked letters."""

    metric, writes, pipeline_tag = "masked accuracy", False, "fill-mask"

    def tokenizer(self, alphabet: str) -> Tokenizer:
        return Tokenizer.characters(alphabet, BERT_SPECIAL)

    def examples(
        self, strings: Sequence[Strings], tokenizer: Tokenizer, rng: Random
    ) -> list[Masked]:
        cls, sep, mask = (tokenizer.special_ids[name] for name in ("cls", "sep", "mask"))
        examples: list[Masked] = []
        every = tokenizer.encode_many([each.text for each in strings])
        for each, ids in zip(strings, every, strict=True):
            places = sorted(each.predicted(rng))
            row = [cls, *(mask if i in places else token for i, token in enumerate(ids)), sep]
            labels = [ids[i] for i in places]
            examples.append((row, [0] * len(row), [i + 1 for i in places], labels, (NO_LABEL,)))
        return examples

    def collate(self, examples: Sequence[Masked], tokenizer: Tokenizer) -> Batch:
        return batches.collate_masked(examples, tokenizer.pad_id)

    def objective(self, answers: Any, batch: Batch, smoothing: float) -> Losses:
        return objectives.masked_tokens(answers, batch, smoothing)

    def case(self, strings: Strings, rng: Random) -> Case:
        places = strings.predicted(rng)
        letters = (BERT_SPECIAL["mask"] if i in places else c for i, c in enumerate(strings.text))
        return Case("".join(letters), (strings.text,), (strings.text,))

    def logits(self, answers: Any) -> Float[Tensor, "batch m vocab"]:
        return answers[MASKED_OUTPUT]


class OrderedForm(ReadingForm):
    """XLNet reads both as one text and predicts the last letters of a random order."""

    metric, writes, pipeline_tag = "accuracy", False, "text-generation"

    def examples(
        self, strings: Sequence[Strings], tokenizer: Tokenizer, rng: Random
    ) -> list[batches.Ordered]:
        examples: list[batches.Ordered] = []
        every = tokenizer.encode_many([each.text for each in strings])
        for each, ids in zip(strings, every, strict=True):
            places = each.predicted(rng)
            order = [i for i in range(len(ids)) if i not in places]
            rng.shuffle(order)
            ranks = {place: rank for rank, place in enumerate([*order, *places])}
            labels = [token if i in places else NO_LABEL for i, token in enumerate(ids)]
            examples.append((ids, [ranks[i] for i in range(len(ids))], [0] * len(ids), labels))
        return examples

    def collate(self, examples: Sequence[batches.Ordered], tokenizer: Tokenizer) -> Batch:
        return batches.collate_ordered(examples, tokenizer.pad_id)

    def objective(self, answers: Any, batch: Batch, smoothing: float) -> Losses:
        return objectives.tokens_in_order(answers, batch, smoothing)

    def case(self, strings: Strings, rng: Random) -> Case:
        return Case(strings.text, (strings.text,), (strings.text,))

    def logits(self, answers: Any) -> Float[Tensor, "batch m vocab"]:
        return answers[TOKEN_IN_ORDER]


FORMS: dict[str, ReadingForm] = {
    PAIRED_FORM: PairForm(), ONE_TEXT_FORM: ContinuationForm(), MASKED_FORM: MaskedForm(), ORDERED: OrderedForm(),
}  # fmt: skip


@torch.inference_mode()
def accuracy(
    form: ReadingForm,
    model: Model,
    examples: Sequence[Any],
    tokenizer: Tokenizer,
    progress: Progress = no_progress,
) -> float:
    """Return the percentage of labels that are the model's first choice."""
    n_correct, n_labels = 0, 0
    with evaluating(model):
        for start in range(0, len(examples), FORM_EVAL_ROWS):
            batch = form.collate(examples[start : start + FORM_EVAL_ROWS], tokenizer).to(
                model.device
            )
            first_choices = form.logits(model(*batch.inputs)).argmax(-1)
            n_correct += int((first_choices == batch.labels).sum())
            n_labels += batch.n_labels
            progress(min(start + FORM_EVAL_ROWS, len(examples)), len(examples))
    return 100 * n_correct / n_labels
