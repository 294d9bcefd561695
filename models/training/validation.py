"""How good a model in training is on its task's validation cases: its losses, and the task's own measure."""

from collections import Counter
from collections.abc import Callable

import torch

from models.architectures import Model
from models.training import progress
from models.training.batches import Batch
from models.training.evaluation import METRICS, score
from models.training.likelihood import PERPLEXITY, likelihoods
from models.training.objectives import Losses, label_counts
from models.training.task import Task

N_WATCHED = 50  # validation examples whose cross-attention is watched, of every length
BATCH_SIZE = 128


def validation_losses(
    model: Model, task: Task, losses: Callable[[Model, Batch, float], Losses], device: torch.device
) -> dict[str, float]:
    """progress.LOSS over all cases, in nats a label and without smoothing, and progress.FLATNESS over some of them."""
    examples = sorted(task.validation(), key=lambda example: (len(example[1]), len(example[0])))
    totals, counts = Counter(), Counter()
    for start in range(0, len(examples), BATCH_SIZE):
        batch = task.collate(examples[start : start + BATCH_SIZE]).to(device)
        totals.update({name: float(value) for name, value in losses(model, batch, 0.0).items()})
        counts.update(label_counts(batch, least=0))
    result = {progress.LOSS: sum(total / max(1, counts[name]) for name, total in totals.items())}
    some = task.collate(examples[:: max(1, len(examples) // N_WATCHED)]).to(device)
    if (flatness := progress.cross_attention_entropy(model, some, model.config.pad_id)) is not None:
        result[progress.FLATNESS] = flatness
    return result


def validation_scores(model: Model, task: Task, n: int) -> dict[str, float]:
    """The task's measure on the first n validation cases."""
    if task.metric == PERPLEXITY:
        return likelihoods(model, task.passages(n, validation=True))
    if task.metric not in METRICS:
        return task.evaluate(model, n, validation=True)
    cases = task.held_out(n, validation=True)
    return {task.metric: score(model, task.tokenizer, cases, task.metric)}
