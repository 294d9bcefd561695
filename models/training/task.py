"""What a task offers to training and evaluation: an endless seeded stream of batches, and held-out cases with references."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from models.architectures.base import Answers
from models.tokenizers.base import Tokenizer
from models.training.batches import Batch, Example


class DataError(ValueError):
    """A data file that cannot be used, and why."""


@dataclass(frozen=True)
class Case:
    """One held-out source with everything that counts as right; of a model that is asked several texts, all of them."""

    source: str | tuple[str, ...]
    references: tuple[str, ...]

    def as_example(self) -> str | list[str]:
        """The source as a training record holds it."""
        return self.source if isinstance(self.source, str) else list(self.source)


@dataclass(frozen=True)
class Passage:
    """A piece of a held-out document: the tokens to predict in order (</s> after the document's
    last), and the amount of text they cover."""

    labels: tuple[int, ...]
    n_characters: int
    n_bytes: int


@runtime_checkable
class Task(Protocol):
    """A data set with its split, its vocabulary and its measure."""

    name: str
    metric: str  # one of models.training.evaluation.METRICS, "perplexity", or one that the task measures itself
    tokenizer: Tokenizer
    licence: str  # the attribution line that a checkpoint trained on it carries

    def batches(self, seed: int) -> Iterator[Sequence[Example]]:
        """Training batches without end, a pure function of the seed, so that a resumed run can skip to its place."""
        ...

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Examples as a model reads them."""
        ...

    def objective(
        self, answers: Tensor | Answers, batch: Batch, smoothing: float
    ) -> dict[str, Tensor]:
        """The losses of a model's answers to a batch, summed over its labels, by name (models.training.objectives)."""
        ...

    def validation(self) -> Sequence[Example]:
        """Examples for the loss during training; neither trained on nor part of `held_out`."""
        ...

    def held_out(self, n: int | None = None, *, validation: bool = False) -> list[Case]:
        """Cases for the score: the first n of the test split in a fixed order, or of the validation split."""
        ...

    def data(self) -> dict[str, Any]:
        """What was trained on, for the record: source, fingerprint, counts."""
        ...
