"""Beam search, as the hypotheses that survive each step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from models.architectures import Model
from models.decoding.incremental import (
    Forced,
    Incremental,
    by_position,
    id_row,
    limit_of,
)
from models.trace.edits import Edit

MAX_BEAM_WIDTH = 1024  # hypotheses; each is a row of every step


@dataclass(frozen=True)
class Hypothesis:
    """One node of the beam.

    It holds the tokens so far, their summed log-probability, the score with length penalty, and the
    index of its parent among the hypotheses of the previous step (−1 at the first step). The score
    is `total` divided by the penalty: the sum in nats after the model's generation settings, which
    do not apply to a forced token.
    """

    tokens: tuple[int, ...]
    log_prob: float
    score: float
    parent: int
    ended: bool  # with </s>
    total: float


@dataclass(frozen=True)
class BeamStep:
    """The hypotheses after one step, best first; ended ones stay in the beam unchanged."""

    index: int
    hypotheses: tuple[Hypothesis, ...]


def length_penalty(n_tokens: int, alpha: float) -> float:
    """Return ((5 + n) / 6)^α (Wu et al. 2016, eq. 14)."""
    return ((5 + n_tokens) / 6) ** alpha


@torch.inference_mode()
def beam(
    model: Model,
    inputs: Sequence[int],
    *,
    width: int = 4,
    alpha: float = 0.6,
    max_new: int | None = None,
    forced: Forced = (),
    edits: Sequence[Edit] = (),
) -> Iterator[BeamStep]:
    """Yield the steps of a beam search; the best hypothesis is the last step's first.

    The paper uses width 4, α = 0.6 (Vaswani et al. §6.1). At a `forced` position every unfinished
    hypothesis continues with that token alone. `edits` as in `Incremental`.
    """
    if not 1 <= width <= MAX_BEAM_WIDTH:
        raise ValueError(f"beam width must be from 1 to {MAX_BEAM_WIDTH}, not {width}")
    limit = limit_of(model, inputs, max_new)
    at = model.forced_by_position(limit) | by_position(forced)
    run = Incremental(model, model.encoder_inputs([inputs]), edits=edits)
    opening = run.opening[0].tolist()
    best: list[Hypothesis] = []
    for index in range(limit):
        alive = [i for i, h in enumerate(best) if not h.ended] if index else [-1]
        if not alive:
            return
        prefixes = [best[i].tokens if i >= 0 else () for i in alive]
        rows = torch.cat([id_row([*opening, *p], model) for p in prefixes])
        log_probs = run.next_log_probs(rows)
        scores = run.scores(rows, log_probs)
        scores, log_probs = (log_probs if scores is None else scores).cpu(), log_probs.cpu()
        candidates = [replace(h, parent=i) for i, h in enumerate(best) if h.ended]
        for i, row, row_scores in zip(alive, log_probs, scores, strict=True):
            candidates += _children(
                best[i] if i >= 0 else None,
                i,
                row,
                row_scores,
                model.end_ids,
                width,
                alpha,
                at.get(index),
            )
        best = sorted(candidates, key=lambda h: -h.score)[:width]
        yield BeamStep(index, tuple(best))
        parents = [alive.index(h.parent) for h in best if not h.ended]
        run.reorder(torch.tensor(parents, dtype=torch.long, device=run.inputs.device))


def _children(
    parent: Hypothesis | None,
    i: int,
    log_probs: Tensor,
    scores: Tensor,
    ends: Sequence[int],
    width: int,
    alpha: float,
    only: int | None = None,
) -> list[Hypothesis]:
    tokens, log_prob, total = (
        (parent.tokens, parent.log_prob, parent.total) if parent else ((), 0.0, 0.0)
    )
    values, ids = scores.topk(min(width, len(scores)))
    if only is not None:
        values, ids = log_probs[only : only + 1], torch.tensor([only])
    penalty = length_penalty(len(tokens) + 1, alpha)
    possible = values > -torch.inf
    values, ids = values[possible], ids[possible]
    each = zip(ids.tolist(), log_probs[ids].tolist(), values.tolist(), strict=True)
    return [
        Hypothesis(
            (*tokens, token),
            log_prob + p,
            (total + value) / penalty,
            i,
            token in ends,
            total + value,
        )
        for token, p, value in each
    ]
