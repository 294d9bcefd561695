"""The task's score of a run with edits against the score without, over held-out texts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sacrebleu
import torch
from jaxtyping import Float
from torch import Tensor

from models.analysis.paired import Interval, bootstrap
from models.runs.scope import Scope
from models.runs.text_loss import LOSS_UNITS, TextLosses
from models.trace.edits import Edit
from models.training.evaluation import METRICS
from models.training.task import Case, Progress, no_progress

N_BLEU_RESAMPLES = 1000  # of corpus BLEU, as in Koehn 2004
OF_TASK = {"translation": "BLEU"} | dict.fromkeys(
    ("dates", "english-dates", "copy", "reverse", "sort", "addition"), "exact match"
)


@dataclass(frozen=True)
class EditedScore:
    """Scores of the same texts without and with edits.

    Generated texts are decoded greedily and scored in percent; a loss is in nats. `change` is after
    − before with its 95 % paired-bootstrap interval over texts.
    """

    metric: str  # of METRICS, or the loss with its unit
    before: float
    after: float
    change: Interval
    texts: tuple[tuple[str, str], ...]  # generated for each case, before and after
    n: int

    @property
    def is_loss(self) -> bool:
        """True if less is better."""
        return self.metric not in METRICS


def held_out_cases(scope: Scope) -> list[Case]:
    """Return the held-out cases that a checkpoint stores, with one reference each."""
    return [Case(text[0], (text[1],)) for text in scope.held_out if len(text) == 2]


class EditedScoring:
    """The scoring of held-out texts under edits and without them, by default the checkpoint's.

    A model that translates writes each text; the score of any other is the loss of the texts
    (models.runs.text_loss).

    Raises:
        ValueError: the model gives no probabilities, or there are no texts.
    """

    def __init__(
        self, scope: Scope, edits: Sequence[Edit], cases: Sequence[Case] = (), seed: int = 0
    ) -> None:
        self.scope, self.edits, self.seed = scope, tuple(edits), seed
        self.is_written = scope.task in OF_TASK and scope.model.translates
        self._pairs: list[tuple[str, str]] = []
        self._losses: list[tuple[float, float]] = []
        if self.is_written:
            self.cases = list(cases) or held_out_cases(scope)
            self.n = len(self.cases)
        else:
            fields = [case.fields for case in cases] or scope.held_out
            texts = [scope.encode(*one) for one in fields]
            self._measure = TextLosses(scope, texts, seed) if texts else None
            self.n = len(self._measure.texts) if self._measure else 0
        if not self.n:
            raise ValueError(f"too little held-out text: {scope.name} comes with none")

    def steps(self) -> Iterator[int]:
        """Score one text after another; yield the number of texts done.

        Raises:
            ValueError: an edit cannot be made on a text.
        """
        for i in range(self.n):
            try:
                self._write(self.cases[i]) if self.is_written else self._lose(i)
            except ValueError as error:
                raise ValueError(f"held-out text {i + 1}: {error}") from error
            yield i + 1

    def score(self) -> EditedScore:
        """Return the score, once all texts are done."""
        if not self.is_written:
            was, now = (torch.tensor(one) for one in zip(*self._losses, strict=True))
            unit = LOSS_UNITS[self._measure.kind] if self._measure else ""
            change = bootstrap(now - was, self.seed)
            before, after = float(was.mean()), float(now.mean())
            return EditedScore(f"loss in {unit}", before, after, change, (), self.n)
        metric = OF_TASK[self.scope.task]
        first, second = ([pair[i] for pair in self._pairs] for i in (0, 1))
        change, score = _change(metric, first, second, self.cases, self.seed), METRICS[metric]
        scores = (score(first, self.cases), score(second, self.cases))
        return EditedScore(metric, *scores, change, tuple(self._pairs), self.n)

    def _write(self, case: Case) -> None:
        source = case.source if isinstance(case.source, str) else case.source[0]
        before = self.scope.write(source).text
        after = self.scope.write(source, edits=self.edits).text if self.edits else before
        self._pairs.append((before, after))

    def _lose(self, i: int) -> None:
        if self._measure is None:
            return
        texts = self._measure.texts[i : i + 1]
        before, after = (
            float(self._measure.losses(texts, self.scope.outputs_batch(texts, edits))[0])
            for edits in ((), self.edits)
        )
        self._losses.append((before, after))


def edited_score(
    scope: Scope,
    edits: Sequence[Edit],
    cases: Sequence[Case] = (),
    *,
    seed: int = 0,
    progress: Progress = no_progress,
) -> EditedScore:
    """Score held-out texts under edits and without them, as EditedScoring does.

    `progress(done, total)` is called after each text, and stops the scoring by an exception.

    Raises:
        ValueError: as EditedScoring.
    """
    scoring = EditedScoring(scope, edits, cases, seed)
    for done in scoring.steps():
        progress(done, scoring.n)
    return scoring.score()


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
    samples = torch.randint(len(cases), (N_BLEU_RESAMPLES, len(cases)), generator=rng)
    changes = torch.tensor(
        [_bleu(now[i].sum(0)) - _bleu(was[i].sum(0)) for i in samples], dtype=torch.float64
    )
    low, high = torch.quantile(changes, torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return Interval(whole, low, high)


def _counts(texts: Sequence[str], cases: Sequence[Case]) -> Float[Tensor, "text ten"]:
    """Return what corpus BLEU sums over texts: matches and n-grams for n = 1 to 4, both lengths."""
    measure = sacrebleu.BLEU(effective_order=True)  # for the counts alone; the score is not used
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
