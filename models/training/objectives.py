"""Training objectives: of a batch, the losses summed over its labels, by name. A run divides each by how many labels there are
and adds them up."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from models.architectures import base
from models.architectures.base import NEXT_TOKEN, Answers
from models.architectures.bert import MASKED, NEXT_SENTENCE
from models.architectures.xlnet import IN_ORDER
from models.training.batches import NO_LABEL, Batch

Losses = dict[str, Tensor]  # LABELS or CLASSES → nats, summed
LABELS, CLASSES = "labels", "classes"

ROWS = 64  # positions worked on at once, so that their row of the vocabulary stays in the processor's cache


def label_counts(batch: Batch, least: int = 1) -> dict[str, int]:
    """How many labels each loss of a batch is summed over."""
    return {LABELS: max(least, batch.n_labels), CLASSES: max(least, batch.n_classes)}


def label_smoothed_loss(
    logits: Float[Tensor, "batch m vocab"], labels: Int[Tensor, "batch m"], smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Cross-entropy summed over all real tokens, in nats, with label smoothing ε (Szegedy et al. 2016; Vaswani §5.4)."""
    return _CrossEntropy.apply(logits.flatten(0, 1).float(), labels.flatten(), smoothing)


def next_tokens(logits: Tensor, batch: Batch, smoothing: float) -> Losses:
    """Of every token after those before it."""
    return {LABELS: label_smoothed_loss(logits, batch.labels, smoothing)}


def masked_tokens(answers: Answers, batch: Batch, smoothing: float) -> Losses:
    """Of the tokens at masked places, and of whether the second text follows the first (Devlin et al. 2019, §3.1)."""
    following = F.cross_entropy(
        answers[NEXT_SENTENCE].float(), batch.classes, ignore_index=NO_LABEL, reduction="sum"
    )
    return {
        LABELS: label_smoothed_loss(answers[MASKED], batch.labels, smoothing),
        CLASSES: following,
    }


def tokens_in_order(answers: Answers, batch: Batch, smoothing: float) -> Losses:
    """Of tokens after those before them in a factorisation order (Yang et al. 2019, eq. 5)."""
    return {LABELS: label_smoothed_loss(answers[IN_ORDER], batch.labels, smoothing)}


def spans(answers: Answers, batch: Batch, smoothing: float) -> Losses:
    """Of the answer's first and of its last token, each among all tokens of its row (Devlin et al. 2019, §4.2)."""
    ends = (answers["start"], batch.labels[:, 0]), (answers["end"], batch.labels[:, 1])
    losses = (
        F.cross_entropy(logits.float(), place, label_smoothing=smoothing, reduction="sum")
        for logits, place in ends
    )
    return {LABELS: sum(losses)}


def text_classes(answers: Answers, batch: Batch, smoothing: float, lm_weight: float) -> Losses:
    """L3 = L2 + λ·L1 (Radford et al. 2018, eq. 5): of the class of each text and, `lm_weight` times, of every token after those
    before it, where there is such a factor."""
    of_texts = F.cross_entropy(
        answers[base.CLASSES].float(), batch.classes, label_smoothing=smoothing, reduction="sum"
    )
    if not lm_weight:
        return {CLASSES: of_texts}
    return {
        CLASSES: of_texts,
        LABELS: lm_weight * label_smoothed_loss(answers[NEXT_TOKEN], batch.labels),
    }


class _CrossEntropy(torch.autograd.Function):
    """−Σ ((1 − ε)·log p(label) + ε/V·Σ_v log p(v)), whose gradient by the logits is p − (1 − ε)·[label] − ε/V. Both are worked
    out in one pass over the logits, where torch's own cross-entropy makes five tensors of their size."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        each, total = smoothing / logits.shape[1], logits.new_zeros(())
        slope = torch.empty_like(logits) if ctx.needs_input_grad[0] else None
        for start in range(0, len(logits), ROWS):
            rows = slice(start, start + ROWS)
            row, real = logits[rows], labels[rows, None] != NO_LABEL
            label = labels[rows, None].where(real, 0)
            p = torch.softmax(
                row, -1, out=None if slope is None else slope[rows]
            )  # where the slope will stand
            log_sum = (
                row.amax(-1, keepdim=True) - p.amax(-1, keepdim=True).log()
            )  # log Σ exp, since p = exp(row) / Σ exp
            loss = log_sum - (1 - smoothing) * row.gather(1, label)
            if smoothing:
                loss -= each * row.sum(-1, keepdim=True)
            total += loss[real].sum()
            if slope is not None:
                p.scatter_add_(1, label, torch.full_like(loss, smoothing - 1))
                if smoothing:
                    p.sub_(each)
                if not real.all():
                    p.masked_fill_(~real, 0.0)
        if slope is not None:
            ctx.save_for_backward(slope)
        return total

    @staticmethod
    def backward(ctx: Any, up: Tensor) -> tuple[Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        return (
            slope.mul_(up),
            None,
            None,
        )  # where it stands: a second time, torch says that it was changed
