"""Small generated tasks that a model learns in about a minute, each a rule for strings."""

from datetime import date
from random import Random
from typing import Any

from models.tasks.date_languages import ENGLISH
from models.tasks.forms import MASKED_FORM, ONE_TEXT_FORM, ORDERED, PAIRED_FORM
from models.tasks.generated import GeneratedTask
from models.tasks.markov import MarkovTask
from models.tasks.repeat import RepeatTask
from models.training.small_recipes import MAX_LETTERS
from models.training.task import DataError

COPY_LETTERS = "abcdefghij"
MIN_LETTERS = 4  # of a source
FEWEST_MOST, MOST_LETTERS = 5, 30  # of `max_letters`: strings of 4 are too few to hold some out
DECIMAL_DIGITS, N_DIGITS = "0123456789", 3  # of each number
EARLIEST, LATEST = date(1900, 1, 1), date(2099, 12, 31)  # enough of them are held out
REVERSED_ORDER, PLAIN_ORDER = "reversed", "plain"


class LettersTask(GeneratedTask):
    """Strings of 4 to `max_letters` random letters."""

    alphabet = COPY_LETTERS
    model_settings = ("form", "max_letters")

    def __init__(self, *, max_letters: int = MAX_LETTERS, **settings: Any) -> None:
        if not FEWEST_MOST <= max_letters <= MOST_LETTERS:
            raise DataError(
                f"max_letters must be between {FEWEST_MOST} and {MOST_LETTERS}, not {max_letters}"
            )
        self.max_letters = max_letters
        super().__init__(**settings)

    @property
    def settings(self) -> dict[str, Any]:
        return {"max_letters": self.max_letters}

    def draw(self, rng: Random) -> str:
        return "".join(rng.choices(COPY_LETTERS, k=rng.randint(MIN_LETTERS, self.max_letters)))


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
    forms = (PAIRED_FORM, ONE_TEXT_FORM, MASKED_FORM, ORDERED)

    def answer(self, source: str) -> str:
        return "".join(sorted(source))


class EnglishDatesTask(GeneratedTask):
    """Dates from 1900 to 2099 as `5 March 2019`, to be written as `2019-03-05`.

    The small form of the task `dates`: with one language and one pattern, to hold out a source is
    to hold out a date.
    """

    name, purpose = "english-dates", "writes an English date in ISO format"
    months = ENGLISH.month_rows[0]
    alphabet = "".join(sorted({*f" -{DECIMAL_DIGITS}", *"".join(months)}))

    def draw(self, rng: Random) -> str:
        day = date.fromordinal(rng.randint(EARLIEST.toordinal(), LATEST.toordinal()))
        return f"{day.day} {self.months[day.month - 1]} {day.year}"

    def answer(self, source: str) -> str:
        day, month, year = source.split()
        return date(int(year), self.months.index(month) + 1, int(day)).isoformat()


class AdditionTask(GeneratedTask):
    """Two numbers of three digits, and their sum of four, its last digit first by default.

    Reversed, a digit depends on the ones already written: the carry goes from left to right.
    """

    name, purpose = "addition", "adds two numbers"
    alphabet = f"{DECIMAL_DIGITS}+"
    forms = (PAIRED_FORM, ONE_TEXT_FORM)
    model_settings = ("form", "digits")

    def __init__(self, *, digits: str = REVERSED_ORDER, **settings: Any) -> None:
        if digits not in (REVERSED_ORDER, PLAIN_ORDER):
            raise DataError(f"digits must be {REVERSED_ORDER} or {PLAIN_ORDER}, not {digits!r}")
        self.digits = digits
        self.answer_note = "last digit first" if digits == REVERSED_ORDER else ""
        super().__init__(**settings)

    @property
    def settings(self) -> dict[str, Any]:
        return {"digits": self.digits}

    def draw(self, rng: Random) -> str:
        return "+".join(f"{rng.randrange(10**N_DIGITS):0{N_DIGITS}}" for _ in range(2))

    def answer(self, source: str) -> str:
        total = f"{sum(map(int, source.split('+'))):0{N_DIGITS + 1}}"
        return total[::-1] if self.digits == REVERSED_ORDER else total


SMALL_TASKS: dict[str, type[GeneratedTask]] = {
    task.name: task
    for task in (
        CopyTask,
        ReverseTask,
        SortTask,
        EnglishDatesTask,
        AdditionTask,
        RepeatTask,
        MarkovTask,
    )
}
