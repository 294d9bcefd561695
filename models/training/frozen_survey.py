"""The survey of frozen weights: guided models (guided_model.py), trained on texts and tested."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import torch

from models.architectures import Model
from models.architectures.encoder_decoder import EncoderDecoder
from models.runs.scope import Scope
from models.runs.survey_parts import SurveyParts
from models.runs.surveys import SHARE, SHARE_DIFFERENCE, SurveyedMean, SurveyProgress
from models.training.batches import NO_LABEL, Batch, Pair
from models.training.guided_model import GUIDES, IMPOSED, GuidedModel, Weights, aligns
from models.training.objectives import label_smoothed_loss
from models.training.task import Task

FROZEN_SURVEY = "frozen"  # its name
GUIDED_STEPS = 3000  # of gradient descent, for each model
GUIDED_TOKENS = 1024  # of sources and targets in one batch of files
GUIDED_SEEDS = 2  # models under each guide, whose parameters start differently
GUIDED_RATE, GUIDED_WARMUP = 5e-3, 50  # Adam's largest learning rate, and the steps up to it
TESTED_AT_ONCE = 50  # texts
MIN_TESTED = 8  # texts


@dataclass
class GuidedTraining:
    """Training and test texts for guided models, with the weights imposed on each batch."""

    model: Model  # whose weights are frozen
    task: Task
    tested: Sequence[Pair]
    seed: int
    steps: int
    batches: list[Batch] = field(init=False)  # `steps` to train on, then those of tested texts
    _known: dict[str, dict[int, Weights]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        batches = islice(self.task.batches(self.seed), self.steps)
        parts = range(0, len(self.tested), TESTED_AT_ONCE)
        tested = [self.tested[first : first + TESTED_AT_ONCE] for first in parts]
        self.batches = [self._collate(each) for each in (*batches, *tested)]

    def _collate(self, examples: Sequence[Any]) -> Batch:
        return self.task.collate(examples).to(self.model.device)

    def trained(
        self, guide: str, seed: int, progress: Callable[[], object] = lambda: None
    ) -> GuidedModel:
        """Train a model under this guide; report each step."""
        sizes = self.task.tokenizer.vocab_size, self.model.config.pad_id
        learns = GUIDES[guide] is None
        guided = GuidedModel(*sizes, learns=learns, seed=seed).to(self.model.device)
        optimizer = torch.optim.Adam(guided.parameters(), lr=0.0)
        for i, batch in enumerate(self.batches[: self.steps]):
            self._step(guided, optimizer, batch, self.weights(guide, i), i)
            progress()
        return guided

    def shares(self, guided: GuidedModel, guide: str) -> list[float]:
        """Return the share of each tested text's tokens that a model predicts."""
        each = enumerate(self.batches[self.steps :], self.steps)
        parts = (_shares_right(guided, batch, self.weights(guide, i)) for i, batch in each)
        return [share for part in parts for share in part]

    def weights(self, guide: str, i: int) -> Weights | None:
        """Return the weights that a guide imposes on batch i; they are computed once."""
        weigh, known = GUIDES[guide], self._known.setdefault(guide, {})
        if weigh is not None and i not in known:
            known[i] = weigh(self.model, self.batches[i])
        return known.get(i)

    def _step(
        self,
        guided: GuidedModel,
        optimizer: torch.optim.Optimizer,
        batch: Batch,
        weights: Weights | None,
        i: int,
    ) -> None:
        """Take one gradient step: the rate rises to GUIDED_RATE and falls to 0, both linearly."""
        is_real = batch.labels != NO_LABEL
        readout = guided(*batch.inputs, weights)[is_real]
        labels = batch.labels[is_real]
        loss = label_smoothed_loss(guided.logits(readout)[None], labels[None]) / len(labels)
        for group in optimizer.param_groups:
            group["lr"] = GUIDED_RATE * min(1, (i + 1) / GUIDED_WARMUP) * (1 - i / self.steps)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def _shares_right(guided: GuidedModel, batch: Batch, weights: Weights | None) -> list[float]:
    """Return the share of each text's tokens, </s> included, that are the most probable one."""
    predicted = guided.logits(guided(*batch.inputs, weights)).argmax(-1)
    right = (predicted == batch.labels).sum(1)
    return (right.double() / (batch.labels != NO_LABEL).sum(1)).tolist()


def survey_frozen(
    scope: Scope,
    task: Task,
    n_texts: int,
    seed: int,
    progress: SurveyProgress,
    parts: SurveyParts | None = None,
    steps: int = GUIDED_STEPS,
) -> dict[str, SurveyedMean]:
    """Return how many held-out tokens guided models predict, and what the imposed weights gain.

    They read the reference translation as far as it is written, and predict its next token. Each is
    the mean of GUIDED_SEEDS models, with seeds from `seed` on; the intervals are over texts, those
    of the gains over differences in each text.

    Raises:
        ValueError: the model has no attention from target to source, or there are too few texts.
    """
    check_imposable(scope)
    parts, shares = parts or SurveyParts(), {}
    training = GuidedTraining(scope.model, task, held_out_pairs(scope, task, n_texts), seed, steps)
    done, n = 0, steps * GUIDED_SEEDS * len(GUIDES)

    def advance() -> None:
        nonlocal done
        progress(done := done + 1, n)

    for guide in GUIDES:
        each = []
        for guide_seed in range(seed, seed + GUIDED_SEEDS):
            before = done
            predict = partial(_predict, training, guide, guide_seed, advance)
            each.append(parts.numbers(f"{guide} {guide_seed}", 1, predict))
            progress(done := before + steps, n)
        shares[guide] = [sum(values) / len(values) for values in zip(*each, strict=True)]
    means = {name: SurveyedMean.of(SHARE, values, seed) for name, values in shares.items()}
    for other in GUIDES:
        if other == IMPOSED:
            continue
        gains = [a - b for a, b in zip(shares[IMPOSED], shares[other], strict=True)]
        means[f"{IMPOSED} over {other}"] = SurveyedMean.of(SHARE_DIFFERENCE, gains, seed)
    return means


def check_imposable(scope: Scope) -> None:
    """Check that a model has weights to impose, which do not know the token to predict.

    Raises:
        ValueError: it has no such weights.
    """
    kinds = scope.model.kinds if isinstance(scope.model, EncoderDecoder) else ()
    if not any(map(aligns, kinds)):
        raise ValueError(
            f"{scope.name} has no attention from target to source whose weights could be imposed"
        )
    if any(
        kind.query_stream == kind.key_stream == "target" and not kind.is_causal for kind in kinds
    ):
        raise ValueError(
            f"the decoder of {scope.name} sees the tokens to predict: its weights could reveal them"
        )


def _predict(
    training: GuidedTraining, guide: str, seed: int, advance: Callable[[], object]
) -> list[float]:
    return training.shares(training.trained(guide, seed, advance), guide)


def held_out_pairs(scope: Scope, task: Task, n: int) -> list[Pair]:
    """Return the first n held-out texts that the model can read, with their first reference.

    Raises:
        ValueError: there are too few.
    """
    pairs: list[Pair] = []
    for case in task.held_out(2 * n):
        if len(pairs) == n:
            break
        texts = case.as_example(), case.references[0]
        source, target = (scope.tokenizer.encode(str(text)).ids for text in texts)
        if max(len(source), len(target)) < scope.n_ctx:
            pairs.append((source, target))
    if len(pairs) < MIN_TESTED:
        raise ValueError(
            f"{len(pairs)} held-out texts can be read; at least {MIN_TESTED} are needed"
        )
    return pairs
