"""The `repeat` task: a block of letters is repeated, each time at a different distance.

A model must look for the last occurrence of a letter and copy what followed it (induction, Olsson
et al. 2022). If the block always returned after the same number of letters, a fixed offset would be
enough, and nothing else would be learned: that is what `period` "fixed" shows.
"""

from random import Random
from typing import Any

from models.analysis.induction import Repeats, induction, is_measurable, repeated_texts
from models.architectures import Model
from models.tasks.forms import ONE_TEXT_FORM, Strings, accuracy
from models.tasks.generated import GeneratedTask
from models.training.task import MARKS, Case, DataError, Evaluation, Progress, no_progress

REPEAT_LETTERS = "abcdefghijkl"
REPEAT_LENGTH = 30  # letters of a text; with <s> they fill a model's context
REPEAT_STORED_LENGTH = REPEAT_LENGTH + 1 - MARKS  # letters of a text that a record stores
VARIED, FIXED = "varied", "fixed"
BLOCK_LENGTHS, GAP_LENGTHS = (3, 5), (0, 3)  # letters of a block, and between two: from, to
PERIOD = 8  # letters of a block that is repeated without gaps
OTHER_PERIODS_ACCURACY, OTHER_PERIODS = "accuracy on other periods", (3, 4, 5, 6, 7, 9, 10)
INDUCTION = "induction score"


class RepeatTask(GeneratedTask):
    """Texts of one block of distinct letters; letters that repeat earlier text are predicted."""

    name, purpose = "repeat", "repeats what followed a letter before"
    alphabet, joint = REPEAT_LETTERS, ""
    forms = (ONE_TEXT_FORM,)
    model_settings = ("form", "period")

    def __init__(self, *, period: str = VARIED, form: str = ONE_TEXT_FORM, **settings: Any) -> None:
        if period not in (VARIED, FIXED):
            raise DataError(f"period must be {VARIED} or {FIXED}, not {period!r}")
        self.period = period
        super().__init__(form=form, **settings)

    @property
    def settings(self) -> dict[str, Any]:
        return {"period": self.period}

    @property
    def metric(self) -> str:
        return "accuracy"

    def draw(self, rng: Random) -> str:
        return periodic(rng, PERIOD) if self.period == FIXED else with_gaps(rng)

    def strings(self, source: str) -> Strings:
        return Strings(
            source[0], source[1:], self.joint, tuple(predictable_places(source)), ends=False
        )

    def held_out(self, n: int | None = None, *, validation: bool = False) -> list[Case]:
        """Return each held-out text up to the first letter that can be known, and the rest."""
        texts = [
            (text, predictable_places(text)[0]) for text in self._held_out_sources(validation)[:n]
        ]
        return [Case(text[:i], (text[i:],), (text[:REPEAT_STORED_LENGTH],)) for text, i in texts]

    def evaluate(
        self, model: Model, n: int | None = None, *, validation: bool = False,
        progress: Progress = no_progress,
    ) -> Evaluation:  # fmt: skip
        """Return the accuracy on held-out texts and on blocks that return after other periods.

        On the test split, a model that it can be measured on also gets its induction score
        (models.analysis). During training, `snapshot_measures` takes that of the kept weights.
        """
        sources, rng = self._held_out_sources(validation)[:n], Random("other periods")
        others = [periodic(rng, rng.choice(OTHER_PERIODS)) for _ in sources]
        measures = {}
        for name, texts in ((self.metric, sources), (OTHER_PERIODS_ACCURACY, others)):
            report = progress if texts is sources else no_progress
            examples = self.examples(texts, Random("evaluation"))
            measures[name] = accuracy(self.read, model, examples, self.tokenizer, report)
        measures |= {} if validation else self.snapshot_measures(model)
        return Evaluation(measures, len(sources))

    def snapshot_measures(self, model: Model) -> dict[str, float]:
        """Return the induction score of a model that it can be measured on."""
        if not is_measurable(model):
            return {}
        return {INDUCTION: induction(model, self.repeats(model)).score}

    def repeats(self, model: Model) -> Repeats:
        """Return the texts of random letters that induction is measured on."""
        ids = self.tokenizer.encode(REPEAT_LETTERS).ids
        return repeated_texts(ids, model.config.n_ctx, self.tokenizer.special_ids["start"])


def periodic(rng: Random, period: int) -> str:
    """Return a block of this many distinct letters, repeated to the full length."""
    return ("".join(rng.sample(REPEAT_LETTERS, period)) * REPEAT_LENGTH)[:REPEAT_LENGTH]


def with_gaps(rng: Random) -> str:
    """Return a repeated block of distinct letters, with other letters in between."""
    block = rng.sample(REPEAT_LETTERS, rng.randint(*BLOCK_LENGTHS))
    others = [letter for letter in REPEAT_LETTERS if letter not in block]
    letters = rng.choices(others, k=rng.randint(*GAP_LENGTHS))
    while len(letters) < REPEAT_LENGTH:
        letters += block + rng.choices(others, k=rng.randint(*GAP_LENGTHS))
    return "".join(letters[:REPEAT_LENGTH])


def predictable_places(text: str) -> list[int]:
    """Return the places whose letter also followed the one before it at its last occurrence."""
    last: dict[str, int] = {}
    places = []
    for i in range(1, len(text)):
        if (before := last.get(text[i - 1])) is not None and text[before + 1] == text[i]:
            places.append(i)
        last[text[i - 1]] = i - 1
    return places
