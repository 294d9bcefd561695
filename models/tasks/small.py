"""Small generated tasks that a model learns in about a minute: copy, reverse, sort, addition."""

from random import Random
from typing import Any

from models.tasks.forms import CONTINUED, HIDDEN, ORDERED, PAIRS
from models.tasks.generated import GeneratedTask
from models.tasks.markov import MarkovTask
from models.tasks.repeat import RepeatTask
from models.training.task import DataError

LETTERS = "abcdefghij"
SHORTEST, LONGEST = 4, 8  # letters of a source
DIGITS, N_DIGITS = "0123456789", 3  # of each number
REVERSED, PLAIN = "reversed", "plain"


class LettersTask(GeneratedTask):
    """Strings of random letters."""

    alphabet = LETTERS

    def draw(self, rng: Random) -> str:
        return "".join(rng.choices(LETTERS, k=rng.randint(SHORTEST, LONGEST)))


class CopyTask(LettersTask):
    """Letters, to be repeated."""

    name, purpose = "copy", "copies letters"

    def answer(self, source: str) -> str:
        return source


class ReverseTask(LettersTask):
    """Letters, to be written from the last to the first."""

    name, purpose = "reverse", "reverses letters"

    def answer(self, source: str) -> str:
        return source[::-1]


class SortTask(LettersTask):
    """Letters, to be written in the order of the alphabet."""

    name, purpose = "sort", "sorts letters"
    forms = (PAIRS, CONTINUED, HIDDEN, ORDERED)

    def answer(self, source: str) -> str:
        return "".join(sorted(source))


class AdditionTask(GeneratedTask):
    """Two numbers of three digits, and their sum of four, its last digit first by default.

    Reversed, a digit depends on the ones already written: the carry goes from left to right.
    """

    name, purpose = "addition", "adds two numbers"
    alphabet = f"{DIGITS}+"
    forms = (PAIRS, CONTINUED)
    model_settings = ("form", "digits")

    def __init__(self, *, digits: str = REVERSED, **settings: Any) -> None:
        if digits not in (REVERSED, PLAIN):
            raise DataError(f"digits must be {REVERSED} or {PLAIN}, not {digits!r}")
        self.digits = digits
        super().__init__(**settings)

    @property
    def settings(self) -> dict[str, Any]:
        return {"digits": self.digits}

    def draw(self, rng: Random) -> str:
        return "+".join(f"{rng.randrange(10**N_DIGITS):0{N_DIGITS}}" for _ in range(2))

    def answer(self, source: str) -> str:
        total = f"{sum(map(int, source.split('+'))):0{N_DIGITS + 1}}"
        return total[::-1] if self.digits == REVERSED else total


SMALL_TASKS: dict[str, type[GeneratedTask]] = {
    task.name: task
    for task in (CopyTask, ReverseTask, SortTask, AdditionTask, RepeatTask, MarkovTask)
}
