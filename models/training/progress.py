"""Progress of a run from its validations: the best so far, when to stop, what looks wrong."""

import math
from collections.abc import Sequence

import torch

from models.architectures import Model
from models.trace import record
from models.training.batches import NO_LABEL, Batch

VALIDATION_LOSS, FLATNESS = "validation loss", "cross-attention entropy"
# share of the largest entropy; reached if one of twelve tokens has 2.4 times the others' weight
FLAT = 0.98
LATE = 3  # validations without a new best before a warning

CurveRow = dict[str, float]


def validations(curve: Sequence[CurveRow]) -> list[CurveRow]:
    return [row for row in curve if VALIDATION_LOSS in row]


def best(curve: Sequence[CurveRow]) -> CurveRow | None:
    """Return the validation with the smallest loss; ties go to the first."""
    return min(validations(curve), key=lambda row: row[VALIDATION_LOSS], default=None)


def since_best(curve: Sequence[CurveRow]) -> int:
    """Return the number of validations after the best."""
    rows = validations(curve)
    least = best(curve)
    return len(rows) - 1 - rows.index(least) if least is not None else 0


def training_warnings(curve: Sequence[CurveRow], warmup: int) -> list[str]:
    """Return warnings after the last validation, in words; empty if all is well."""
    rows = validations(curve)
    if not rows:
        return []
    now, messages = rows[-1], []
    if now.get(FLATNESS, 0.0) >= FLAT and now["step"] > warmup:
        messages.append(
            f"cross-attention is flat ({now[FLATNESS]:.3f} of the largest entropy): "
            "no head prefers any source token; a smaller learning rate, a longer warm-up or another initialisation may help"
        )
    least = best(curve)
    if least is not None and since_best(curve) >= LATE:
        messages.append(
            f"the validation loss has not been below {least[VALIDATION_LOSS]:.3f} since step {least['step']:,}"
        )
    return messages


@torch.inference_mode()
def cross_attention_entropy(model: Model, batch: Batch, pad_id: int) -> float | None:
    """Return the entropy of the cross-attention weights as a share of the maximum.

    The maximum is ln n for n source tokens: at 1 every source token has the same weight. Mean over
    layers, heads and real target positions; None for a model without cross-attention.
    """
    with record() as recording:
        model(*batch.inputs)
    sites = [site for site in recording.attention.values() if site.role in ("cross", "alignment")]
    if not sites:
        return None
    total, n = 0.0, 0
    (source, *_) = batch.inputs
    for row in range(len(source)):
        n_source = int((source[row] != pad_id).sum())
        real = batch.labels[row] != NO_LABEL
        for site in sites:
            weights = site.weights(None, row)[:, real]  # (head, query, key)
            total += float(torch.special.entr(weights).sum()) / math.log(n_source)
            n += weights.shape[0] * weights.shape[1]
    return total / n
