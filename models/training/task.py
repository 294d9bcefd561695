"""Interface of a task: an endless seeded stream of batches, and held-out cases with references."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from models.tokenizers.base import Tokenizer
from models.training.batches import Batch, TrainingExample


class DataError(ValueError):
    """Unusable data file."""


@dataclass(frozen=True)
class Case:
    """A held-out source, of one text or several, with all correct answers."""

    source: str | tuple[str, ...]
    references: tuple[str, ...]
    # what a model reads in training, if the answer is part of it
    whole: tuple[str, ...] = field(default=(), repr=False)

    def as_example(self) -> str | list[str]:
        """Return the source as a training record stores it."""
        return self.source if isinstance(self.source, str) else list(self.source)

    @property
    def fields(self) -> list[str]:
        """The texts of the model's fields, with the answer where the model reads it too."""
        sources = (self.source,) if isinstance(self.source, str) else self.source
        return list(self.whole or sources)


@dataclass(frozen=True)
class Passage:
    """A piece of a held-out document.

    `labels` are the tokens to predict in order (</s> after the document's last); the other fields
    are the amount of text they cover.
    """

    labels: tuple[int, ...]
    n_characters: int
    n_bytes: int


N_STORED_TEXTS = 64  # texts stored with a checkpoint
MAX_STORED_TOKENS = 64  # tokens of such a text
MARKS = 3  # tokens that a model may add to it


def validation_texts(task: "Task", n_ctx: int) -> list[list[str]]:
    """Return texts of the validation split for the record: what a model reads, field by field.

    The baselines "mean" and "resample" of an intervention are computed from them.
    """
    max_tokens = min(n_ctx, MAX_STORED_TOKENS) - MARKS
    texts = [case.fields for case in task.held_out(4 * N_STORED_TEXTS, validation=True)]
    lengths = [sum(len(task.tokenizer.encode(field).ids) for field in text) for text in texts]
    fitting = [text for text, n in zip(texts, lengths, strict=True) if n <= max_tokens]
    return fitting[:N_STORED_TEXTS]


Progress = Callable[[int, int], object]  # called with the number of cases done and of all cases


def no_progress(done: int, total: int) -> None:
    """Ignore the progress."""


@dataclass(frozen=True)
class Evaluation:
    """The measures of a model on held-out cases, and what a report of them needs."""

    measures: dict[str, float]  # the task's metric first
    n_cases: int
    case_noun: str = "held-out case"  # what `n_cases` counts, in a report
    # nouns of what the measures are means over, and their numbers in all cases
    parts: dict[str, int] = field(default_factory=dict)
    digits: int = 4  # decimal places in a checkpoint's record
    # measures of simple models that take time and are not in `measures`
    baselines: Callable[[], dict[str, float]] = dict
    cases: Sequence[Case] = ()  # of a task whose model generates a text for each
    texts: Sequence[str] = ()  # these texts


@runtime_checkable
class Evaluated(Protocol):
    """Held-out cases that a model can be evaluated on."""

    @property
    def metric(self) -> str:
        """Name of the first measure of `evaluate`."""
        ...

    def evaluate(
        self,
        model: Any,
        n: int | None = None,
        *,
        validation: bool = False,
        progress: Progress = no_progress,
    ) -> Evaluation:
        """Evaluate a model on the first n cases of the test or validation split."""
        ...


@runtime_checkable
class SnapshotMeasured(Protocol):
    """Measures that are quick enough to be taken of every snapshot of a run."""

    def snapshot_measures(self, model: Any, /) -> dict[str, float]:
        """Return measures of a model by name."""
        ...


@runtime_checkable
class Task(Evaluated, Protocol):
    """A data set with its split, its vocabulary and its metric."""

    name: str
    purpose: str  # what its models do, as a verb phrase
    pipeline_tag: str  # the Hugging Face hub's name for this kind of task
    # settings that `open_task` takes from a trained model: its tokenizer, its n_ctx, and those
    # that `data` stores
    model_settings: tuple[str, ...]
    licence: str  # attribution line in the record of a checkpoint trained on it

    @property
    def tokenizer(self) -> Tokenizer:
        """Vocabulary of the task, given or learned from its training data."""
        ...

    def batches(self, seed: int) -> Iterator[Sequence[TrainingExample]]:
        """Yield training batches without end, as a pure function of the seed.

        A resumed run can therefore skip to its step.
        """
        ...

    def collate(self, examples: Sequence[Any]) -> Batch:
        """Return examples as a padded batch."""
        ...

    def objective(
        self, answers: Any, batch: Batch, smoothing: float, /
    ) -> dict[str, Float[Tensor, ""]]:
        """Return the losses of a batch by name, each summed over its labels.

        `answers` is the model's output: logits, or logits by name (architectures.base.Answers).
        """
        ...

    def validation(self) -> Sequence[TrainingExample]:
        """Return examples for the validation loss; neither trained on nor in `held_out`."""
        ...

    def held_out(self, n: int | None = None, *, validation: bool = False) -> list[Case]:
        """Return the first n cases of the test or validation split, in a fixed order."""
        ...

    def data(self) -> dict[str, Any]:
        """Describe the training data for the record: source, fingerprint, counts."""
        ...
