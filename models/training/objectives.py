"""Training objectives: the losses of a batch by name, each summed over its labels.

A run divides each by its number of labels and adds them up.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from models.architectures import base
from models.architectures.base import NEXT_TOKEN, Answers
from models.architectures.bert import MASKED_OUTPUT, NEXT_SENTENCE
from models.architectures.xlnet import TOKEN_IN_ORDER
from models.training.batches import NO_LABEL, Batch

Losses = dict[str, Tensor]  # LABEL_BATCH or CLASS_BATCH → nats, summed
LABEL_BATCH, CLASS_BATCH = "labels", "classes"

POSITIONS_PER_BLOCK = 64  # positions per block, so that their logits stay in the processor's cache


def label_counts(batch: Batch) -> dict[str, int]:
    """Return the number of labels that each loss of a batch is summed over."""
    return {LABEL_BATCH: batch.n_labels, CLASS_BATCH: batch.n_classes}


def label_smoothed_loss(
    logits: Float[Tensor, "batch m vocab"], labels: Int[Tensor, "batch m"], smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Return the cross-entropy summed over all labels, in nats.

    Label smoothing ε as in Szegedy et al. 2016; Vaswani et al. 2017, §5.4.
    """
    logits, labels = logits.flatten(0, 1).float(), labels.flatten()
    if logits.device.type == "cpu":
        return _CrossEntropy.apply(logits, labels, smoothing)
    return F.cross_entropy(
        logits, labels, ignore_index=NO_LABEL, reduction="sum", label_smoothing=smoothing
    )


def next_tokens(logits: Float[Tensor, "batch m vocab"], batch: Batch, smoothing: float) -> Losses:
    """Return the loss of every token given those before it."""
    return {LABEL_BATCH: label_smoothed_loss(logits, batch.labels, smoothing)}


def masked_tokens(answers: Answers, batch: Batch, smoothing: float) -> Losses:
    """Return the losses of masked tokens and next-sentence prediction.

    Devlin et al. 2019, §3.1.
    """
    following = F.cross_entropy(
        answers[NEXT_SENTENCE].float(),
        _classes(batch),
        ignore_index=NO_LABEL,
        reduction="sum",
    )
    return {
        LABEL_BATCH: label_smoothed_loss(answers[MASKED_OUTPUT], batch.labels, smoothing),
        CLASS_BATCH: following,
    }


def _classes(batch: Batch) -> Int[Tensor, "batch"]:
    if batch.classes is None:
        raise ValueError("this objective needs a batch with classes")
    return batch.classes


def tokens_in_order(answers: Answers, batch: Batch, smoothing: float) -> Losses:
    """Return the loss of tokens given those before them in an order (Yang et al. 2019, eq. 5)."""
    return {LABEL_BATCH: label_smoothed_loss(answers[TOKEN_IN_ORDER], batch.labels, smoothing)}


def span_loss(answers: Answers, batch: Batch, smoothing: float, pad_id: int) -> Losses:
    """Return the loss of the answer's first and last token, each among all tokens of its row.

    Devlin et al. 2019, §4.2. Padding is no choice, so the loss does not depend on the batch.
    """
    ids, *_ = batch.inputs
    is_token = ids != pad_id
    start, end = (
        _place_loss(answers[name], batch.labels[:, i], is_token, smoothing)
        for i, name in enumerate(("start", "end"))
    )
    return {LABEL_BATCH: start + end}


def _place_loss(
    logits: Float[Tensor, "batch n"],
    labels: Int[Tensor, "batch"],
    is_token: Bool[Tensor, "batch n"],
    smoothing: float,
) -> Float[Tensor, ""]:
    """Return the cross-entropy of one token of each row, summed over the rows."""
    log_probs = logits.float().masked_fill(~is_token, -torch.inf).log_softmax(-1)
    of_labels = log_probs.gather(1, labels[:, None]).sum()
    means = log_probs.masked_fill(~is_token, 0.0).sum(-1) / is_token.sum(-1)
    return -(1 - smoothing) * of_labels - smoothing * means.sum()


def text_classes(answers: Answers, batch: Batch, smoothing: float, lm_weight: float) -> Losses:
    """L3 = L2 + λ·L1 (Radford et al. 2018, eq. 5).

    L2 is the loss of each text's class, L1 that of every token given those before it; λ is
    `lm_weight`, and L1 is left out if it is 0.
    """
    class_loss = F.cross_entropy(
        answers[base.CLASSES_OUTPUT].float(),
        _classes(batch),
        label_smoothing=smoothing,
        reduction="sum",
    )
    if not lm_weight:
        return {CLASS_BATCH: class_loss}
    return {
        CLASS_BATCH: class_loss,
        LABEL_BATCH: lm_weight * label_smoothed_loss(answers[NEXT_TOKEN], batch.labels),
    }


class _CrossEntropy(torch.autograd.Function):
    """−Σ ((1 − ε)·log p(label) + ε/V·Σ_v log p(v)), with gradient p − (1 − ε)·[label] − ε/V.

    One pass over the logits computes both; on a CPU torch's own cross-entropy makes five tensors of
    that size.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        each, total = smoothing / logits.shape[1], logits.new_zeros(())
        slope = torch.empty_like(logits) if ctx.needs_input_grad[0] else None
        for start in range(0, len(logits), POSITIONS_PER_BLOCK):
            rows = slice(start, start + POSITIONS_PER_BLOCK)
            row, real = logits[rows], labels[rows, None] != NO_LABEL
            label = labels[rows, None].where(real, 0)
            # written into the memory of the gradient
            p = torch.softmax(row, -1, out=None if slope is None else slope[rows])
            # log Σ exp, since p = exp(row) / Σ exp
            log_sum = row.amax(-1, keepdim=True) - p.amax(-1, keepdim=True).log()
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
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        # in place: a second backward pass raises torch's error about modified tensors
        return slope.mul_(grad_outputs[0]), None, None
