"""The `markov` task: letters of a Markov chain whose transitions are drawn for each text.

A model can only learn them from the text itself (Edelman et al. 2024). The exact predictor counts
what followed the current letter so far; no model can have a smaller loss on average.
"""

import math
from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate, pairwise
from random import Random

import torch
import torch.nn.functional as F

from models.architectures import Model
from models.evaluation_mode import evaluating
from models.tasks.forms import ONE_TEXT_FORM, Strings
from models.tasks.generated import GeneratedTask
from models.training.batches import NO_LABEL
from models.training.task import MARKS, Case, Evaluation, Progress, no_progress

MARKOV_LETTERS = "abc"
MARKOV_LENGTH = 31  # letters of a text; with <s> it fills 32 positions
MARKOV_STORED_LENGTH = MARKOV_LENGTH + 1 - MARKS  # letters of a text that a record stores
N_PROMPT = 20  # letters of a held-out text that are shown
CONCENTRATION = 0.5  # α of the Dirichlet distribution that each row of transitions is drawn from
EXACT_GAIN = "share of the exact gain"
MARKOV_EVAL_ROWS = 250  # per batch in `evaluate`


class MarkovTask(GeneratedTask):
    """Texts of one chain each; every letter after the first is predicted."""

    name, purpose = "markov", "continues a Markov chain that it learns from the text"
    alphabet, joint = MARKOV_LETTERS, ""
    forms = (ONE_TEXT_FORM,)

    def __init__(self, *, form: str = ONE_TEXT_FORM, batch_size: int = 64) -> None:
        super().__init__(form=form, batch_size=batch_size)

    @property
    def metric(self) -> str:
        return EXACT_GAIN

    def draw(self, rng: Random) -> str:
        limits = [list(accumulate(dirichlet(rng))) for _ in MARKOV_LETTERS]
        letters = [rng.randrange(len(MARKOV_LETTERS))]
        while len(letters) < MARKOV_LENGTH:
            index = bisect(limits[letters[-1]], rng.random())
            letters.append(
                min(index, len(MARKOV_LETTERS) - 1)
            )  # the last limit may be rounded below 1
        return "".join(MARKOV_LETTERS[i] for i in letters)

    def strings(self, source: str) -> Strings:
        return Strings(source[0], source[1:], self.joint, ends=False)

    def held_out(self, n: int | None = None, *, validation: bool = False) -> list[Case]:
        """Return the first N_PROMPT letters of each held-out text, and the rest."""
        texts = self._held_out_sources(validation)[:n]
        return [
            Case(text[:N_PROMPT], (text[N_PROMPT:],), (text[:MARKOV_STORED_LENGTH],))
            for text in texts
        ]

    @torch.inference_mode()
    def evaluate(
        self, model: Model, n: int | None = None, *, validation: bool = False,
        progress: Progress = no_progress,
    ) -> Evaluation:  # fmt: skip
        """Return how much of the exact predictor's gain over uniform guessing a model reaches.

        That is 100·(ln 3 − loss)/(ln 3 − exact loss), within 0 to 100; with it come both losses,
        and that of the letters' counts in the text so far, in nats per letter.
        """
        texts, nats, n_letters = self._held_out_sources(validation)[:n], 0.0, 0
        with evaluating(model):
            for start in range(0, len(texts), MARKOV_EVAL_ROWS):
                part = texts[start : start + MARKOV_EVAL_ROWS]
                batch = self.collate(self.examples(part, Random())).to(model.device)
                logits = self.read.logits(model(*batch.inputs)).float()
                nats += float(F.cross_entropy(
                    logits.flatten(0, 1), batch.labels.flatten(), ignore_index=NO_LABEL, reduction="sum",
                ))  # fmt: skip
                n_letters += batch.n_labels
                progress(start + len(part), len(texts))
        loss, exact = nats / n_letters, mean_loss(texts, context=1)
        uniform = math.log(len(MARKOV_LETTERS))
        share = 100 * (uniform - loss) / (uniform - exact)
        measures = {
            EXACT_GAIN: min(100.0, max(0.0, share)),
            "nats per letter": loss,
            "exact nats per letter": exact,
            "letter counts nats per letter": mean_loss(texts, context=0),
        }
        return Evaluation(measures, len(texts))


def dirichlet(rng: Random) -> list[float]:
    """Return probabilities drawn from the symmetric Dirichlet distribution of CONCENTRATION."""
    weights = [rng.gammavariate(CONCENTRATION, 1) for _ in MARKOV_LETTERS]
    return [weight / sum(weights) for weight in weights]


def markov_probability(text: str, letter: str, context: int = 1) -> float:
    """Return p(letter) after a text, as the mean over all transitions given the text.

    It is (n(current, letter) + α) / (n(current) + 3α), with counts of what followed the current
    letter so far. With `context` 0, counts of all letters.
    """
    followers = [b for a, b in pairwise(text) if a == text[-1]] if context else list(text)
    total = len(followers) + CONCENTRATION * len(MARKOV_LETTERS)
    return (followers.count(letter) + CONCENTRATION) / total


def mean_loss(texts: Sequence[str], context: int) -> float:
    """Return −ln p per letter of a counting predictor, without the first letter of each text."""
    nats = [
        -math.log(markov_probability(text[:i], text[i], context))
        for text in texts
        for i in range(1, len(text))
    ]
    return sum(nats) / len(nats)
