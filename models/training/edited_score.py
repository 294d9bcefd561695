"""The task's score of a run with edits against the score without, over held-out texts."""

from collections.abc import Sequence
from dataclasses import dataclass

import sacrebleu
import torch
from jaxtyping import Float
from torch import Tensor

from models.analysis.paired import Interval, bootstrap
from models.runs.scope import Scope
from models.trace.edits import Edit
from models.training.evaluation import METRICS
from models.training.task import Case, Progress, no_progress

N_RESAMPLES = 1000  # of corpus BLEU, as in Koehn 2004
OF_TASK = {"translation": "BLEU", "dates": "exact match"}


@dataclass(frozen=True)
class EditedScore:
    """Scores of the same texts, decoded greedily without and with edits, in percent.

    `change` is after − before with its 95 % paired-bootstrap interval over texts.
    """

    metric: str  # of METRICS
    before: float
    after: float
    change: Interval
    texts: tuple[tuple[str, str], ...]  # what is written for each case before and after

    @property
    def n(self) -> int:
        return len(self.texts)


def held_out_cases(scope: Scope) -> list[Case]:
    """Return the held-out cases that a checkpoint stores, with one reference each."""
    return [Case(text[0], (text[1],)) for text in scope.held_out if len(text) == 2]


def edited_score(
    scope: Scope,
    edits: Sequence[Edit],
    cases: Sequence[Case] = (),
    *,
    seed: int = 0,
    progress: Progress = no_progress,
) -> EditedScore:
    """Score held-out texts under edits and without them, by default those of the checkpoint.

    `progress(done, total)` is called after each text, and stops the scoring by an exception.

    Raises:
        ValueError: the model's task has no score of written texts, or there are no texts.
    """
    if scope.task not in OF_TASK or not scope.model.translates:
        raise ValueError(f"{scope.name} writes no text that could be scored")
    cases = cases or held_out_cases(scope)
    if not cases:
        raise ValueError(f"too little held-out text: {scope.name} comes with none")
    metric, written = OF_TASK[scope.task], []
    for done, case in enumerate(cases, 1):
        source = case.source if isinstance(case.source, str) else case.source[0]
        before = scope.write(source).text
        after = scope.write(source, edits=edits).text if edits else before
        written.append((before, after))
        progress(done, len(cases))
    first, second = ([pair[i] for pair in written] for i in (0, 1))
    change = _change(metric, first, second, cases, seed)
    score = METRICS[metric]
    return EditedScore(metric, score(first, cases), score(second, cases), change, tuple(written))


def _change(
    metric: str, before: Sequence[str], after: Sequence[str], cases: Sequence[Case], seed: int
) -> Interval:
    if metric == "exact match":
        hits = [
            torch.tensor(
                [100.0 * (t.strip() in c.references) for t, c in zip(texts, cases, strict=True)]
            )
            for texts in (before, after)
        ]
        return bootstrap(hits[1] - hits[0], seed)
    was, now = (_counts(texts, cases) for texts in (before, after))
    whole = _bleu(now.sum(0)) - _bleu(was.sum(0))
    rng = torch.Generator().manual_seed(seed)
    drawn = torch.randint(len(cases), (N_RESAMPLES, len(cases)), generator=rng)
    changes = torch.tensor(
        [_bleu(now[i].sum(0)) - _bleu(was[i].sum(0)) for i in drawn], dtype=torch.float64
    )
    low, high = torch.quantile(changes, torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    beyond = min(int((changes <= 0).sum()), int((changes >= 0).sum()))
    return Interval(whole, low, high, min(1.0, 2 * (beyond + 1) / (N_RESAMPLES + 1)))


def _counts(texts: Sequence[str], cases: Sequence[Case]) -> Float[Tensor, "text ten"]:
    """Return what corpus BLEU sums over texts: matches and n-grams for n = 1 to 4, both lengths."""
    measure = sacrebleu.BLEU(effective_order=True)  # of the counts alone; the score is not used
    scores = [
        measure.sentence_score(text, list(case.references))
        for text, case in zip(texts, cases, strict=True)
    ]
    return torch.tensor(
        [[*one.counts, *one.totals, one.sys_len, one.ref_len] for one in scores],
        dtype=torch.float64,
    )


def _bleu(sums: Float[Tensor, "ten"]) -> float:
    numbers = [int(number) for number in sums.tolist()]
    counts, totals, (n_written, n_reference) = numbers[:4], numbers[4:8], numbers[8:]
    score = sacrebleu.BLEU.compute_bleu(
        counts,
        totals,
        n_written,
        n_reference,
        smooth_method="exp",  # that of a corpus score
    )
    return score.score
