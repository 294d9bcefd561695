"""Training objectives: of a batch, the losses summed over its labels, by name. A run divides each by how many labels there are
and adds them up."""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from models.architectures.base import Answers
from models.architectures.bert import MASKED, NEXT_SENTENCE
from models.training.batches import NO_LABEL, Batch

Losses = dict[str, Tensor]      # LABELS or CLASSES → nats, summed
LABELS, CLASSES = "labels", "classes"


def label_smoothed_loss(
    logits: Float[Tensor, "batch m vocab"], labels: Int[Tensor, "batch m"], smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Cross-entropy summed over all real tokens, in nats, with label smoothing ε (Szegedy et al. 2016; Vaswani §5.4)."""
    return F.cross_entropy(
        logits.flatten(0, 1).float(), labels.flatten(), ignore_index=NO_LABEL, label_smoothing=smoothing, reduction="sum"
    )


def next_tokens(logits: Tensor, batch: Batch, smoothing: float) -> Losses:
    """Of every token after those before it."""
    return {LABELS: label_smoothed_loss(logits, batch.labels, smoothing)}


def masked_tokens(answers: Answers, batch: Batch, smoothing: float) -> Losses:
    """Of the tokens at masked places, and of whether the second text follows the first (Devlin et al. 2019, §3.1)."""
    following = F.cross_entropy(answers[NEXT_SENTENCE].float(), batch.classes, ignore_index=NO_LABEL, reduction="sum")
    return {LABELS: label_smoothed_loss(answers[MASKED], batch.labels, smoothing), CLASSES: following}


def spans(answers: Answers, batch: Batch, smoothing: float) -> Losses:
    """Of the answer's first and of its last token, each among all tokens of its row (Devlin et al. 2019, §4.2)."""
    ends = (answers["start"], batch.labels[:, 0]), (answers["end"], batch.labels[:, 1])
    losses = (F.cross_entropy(logits.float(), place, label_smoothing=smoothing, reduction="sum") for logits, place in ends)
    return {LABELS: sum(losses)}
