"""Validation of a model in training: its losses, and the task's metric."""

from collections import Counter
from collections.abc import Callable

import torch

from models.architectures import Model
from models.training import progress
from models.training.batches import Batch
from models.training.objectives import Losses, label_counts
from models.training.task import Task
from models.training_record import recordable

N_WATCHED = 50  # validation examples, of all lengths, whose cross-attention is measured
BATCH_SIZE = 128


def validation_losses(
    model: Model, task: Task, losses: Callable[[Model, Batch, float], Losses], device: torch.device
) -> dict[str, float]:
    """Return progress.VALIDATION_LOSS over all cases and progress.FLATNESS over some of them.

    The loss is in nats per label, without smoothing.
    """
    examples = sorted(task.validation(), key=lambda example: (len(example[1]), len(example[0])))
    totals: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for start in range(0, len(examples), BATCH_SIZE):
        batch = task.collate(examples[start : start + BATCH_SIZE]).to(device)
        totals.update({name: float(value) for name, value in losses(model, batch, 0.0).items()})
        counts.update(label_counts(batch))
    result = {
        progress.VALIDATION_LOSS: sum(
            total / max(1, counts[name]) for name, total in totals.items()
        )
    }
    some = task.collate(examples[:: max(1, len(examples) // N_WATCHED)]).to(device)
    if (flatness := progress.cross_attention_entropy(model, some, model.config.pad_id)) is not None:
        result[progress.FLATNESS] = flatness
    return result


def validation_scores(model: Model, task: Task, n: int) -> dict[str, float]:
    """Return the task's measures on the first n validation cases, for the record."""
    return recordable(task.evaluate(model, n, validation=True).measures)
