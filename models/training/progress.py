"""How a run is getting on, from its validations alone: the best so far, whether to go on, and what looks wrong."""

import math
from collections.abc import Sequence

import torch

from models.architectures import Model
from models.trace import record
from models.training.batches import NO_LABEL, Batch

LOSS, FLATNESS = "validation loss", "cross-attention entropy"
FLAT = 0.98  # of the largest entropy: what it is where one token of twelve is read 2.4 times as often as each other
LATE = 3  # validations without a new best before it is said

Row = dict[str, float]


def validations(curve: Sequence[Row]) -> list[Row]:
    return [row for row in curve if LOSS in row]


def best(curve: Sequence[Row]) -> Row | None:
    """The validation with the smallest loss, the first of equals."""
    return min(validations(curve), key=lambda row: row[LOSS], default=None)


def since_best(curve: Sequence[Row]) -> int:
    """How many validations came after the best."""
    rows = validations(curve)
    return len(rows) - 1 - rows.index(best(curve)) if rows else 0


def warnings(curve: Sequence[Row], warmup: int) -> list[str]:
    """What a person should know after the last validation, in words; empty if all is well."""
    rows = validations(curve)
    if not rows:
        return []
    now, said = rows[-1], []
    if now.get(FLATNESS, 0.0) >= FLAT and now["step"] > warmup:
        said.append(
            f"cross-attention is flat ({now[FLATNESS]:.3f} of the largest entropy): no head chooses among the source's tokens; "
            "a smaller --learning-rate, a longer --warmup or --init normal may help"
        )
    if since_best(curve) >= LATE:
        least = best(curve)
        said.append(
            f"the validation loss has not fallen since step {least['step']:,} ({least[LOSS]:.3f})"
        )
    return said


@torch.inference_mode()
def cross_attention_entropy(model: Model, batch: Batch, pad_id: int) -> float | None:
    """Entropy of the cross-attention's weights, as a share of the largest there can be, ln n over n source tokens: 1 where
    every source token is read alike. Mean over layers, heads and real target positions; None for a model without any."""
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
