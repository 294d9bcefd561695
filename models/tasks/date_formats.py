"""The `dates` task: a date in one of nine languages or in digits, to ISO `YYYY-MM-DD`.

Examples are generated endlessly from a seed. Every string has exactly one reading, by these rules
(the tests apply them with a parser of their own):

1. Years run from 1950 to 2049.
2. All in digits: a four-digit number in front is the year, then month, then day (`2019-03-05`,
   `2019/3/5`, `20190305`). Otherwise the day comes first, whatever the separator: `05/03/2019` is
   5 March, never 3 May.
3. With a month name: the name is the month; of the two numbers a four-digit one in front is the
   year (`2019 March 5`); otherwise the day comes before the year (`5 March 2019`, `March 5, 2019`,
   `19 May 05`).
4. A two-digit year comes last and follows POSIX: 69–99 are 1969–1999, 00–68 are 2000–2068 (here up
   to 49).
5. A weekday, if any, is the correct one, in the language of the month name (in any, with digits).
   It can be ignored.
"""

import hashlib
import string
from dataclasses import dataclass
from datetime import date
from functools import cache, lru_cache
from random import Random

from models.tasks.date_languages import DIGITS_ONLY, LANGUAGES, WITH_MONTH_NAMES

FIRST_DATE, LAST_DATE = date(1950, 1, 1), date(2049, 12, 31)
PIVOT_YEAR = 1969  # earlier years are never written with two digits
MAX_SOURCE_LENGTH, TARGET_LENGTH = 44, 10  # characters

DATE_ALPHABET = (
    " '(),-./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    "ºÁÄÇÉÌÛáäçéìû一三二五六周四土年日星曜月期木水火金"
)  # every character of any source or target, in code-point order

SOURCE_EXAMPLES = [  # (label, source); all on held-out dates, which no model trained on this task has seen
    ("English, in words", "Friday, the 31st of May, 2024"),
    ("French, ordinal", "le dimanche 1er mai 1994"),
    ("Spanish", "viernes, 15 de noviembre de 2024"),
    ("German, weekday abbreviated", "Di., den 27. August 2024"),
    ("Digits, day first, short year", "24/07/69"),
    ("Japanese", "2025年10月20日(月)"),
]


@dataclass(frozen=True)
class DateExample:
    source: str
    target: str  # ISO YYYY-MM-DD
    format: str  # pattern of the source, as in "French: le d month year"


LANGUAGE_SHARES = tuple(language.share for language in LANGUAGES)

# probabilities of the variants; the rest is written plainly
P_WEEKDAY, P_SHORT_YEAR, P_PADDED_DAY, P_FIRST, P_RECASED, P_WITHOUT_ACCENTS = (
    0.3,
    0.2,
    0.15,
    0.5,
    0.3,
    0.1,
)
WITHOUT_ACCENTS = str.maketrans("ÁÄÇÉÌÛáäçéìû", "AACEIUaaceiu")
CASES = (str.lower, str.upper, string.capwords, lambda text: text[:1].upper() + text[1:])


@cache
def _label(language: str, pattern: str) -> str:
    return f"{language}: " + pattern.replace("{w}", "").replace("{", "").replace("}", "")


def write_date(rng: Random, day: date) -> DateExample:
    """Write `day` in a random language, pattern and style."""
    language = rng.choices(LANGUAGES, LANGUAGE_SHARES)[0]
    pattern = rng.choice(language.patterns)
    names = rng.choice(WITH_MONTH_NAMES) if language is DIGITS_ONLY else language
    weekday = plain_day = year = ""
    if rng.random() < P_WEEKDAY:
        weekday = rng.choice(names.weekday_rows)[day.weekday()] + rng.choice(names.after_weekday)
    if day.day == 1 and language.first and rng.random() < P_FIRST:
        plain_day = language.first
    elif rng.random() < P_PADDED_DAY:
        plain_day = f"{day.day:02}"
    if day.year >= PIVOT_YEAR and rng.random() < P_SHORT_YEAR:
        apostrophe = "'" if language.months and rng.random() < 0.5 else ""
        year = f"{apostrophe}{day.year % 100:02}"
    source = pattern.format(
        w=weekday,
        d=plain_day or day.day,
        dd=f"{day.day:02}",
        nth=language.nth[day.day],
        m=day.month,
        mm=f"{day.month:02}",
        month=rng.choice(language.month_rows)[day.month - 1] if language.months else "",
        mon=language.month_rows[1][day.month - 1] if language.months else "",
        year=year or day.year,
        yyyy=day.year,
    )
    if rng.random() < P_RECASED:
        source = rng.choice(CASES)(source)
    if rng.random() < P_WITHOUT_ACCENTS:
        source = source.translate(WITHOUT_ACCENTS)
    return DateExample(source, day.isoformat(), _label(language.name, pattern))


def is_held_out_date(target: str) -> bool:
    """Return True if this date (ISO) is kept from training in every format.

    About 5 % of dates are, by SHA-256 of the target. Splitting by date is stricter than by source:
    a held-out string is never a new spelling of a date seen in training.
    """
    # 13 / 256 = 5.1 % expected; 1,820 of the 36,525 dates, 5.0 %
    return hashlib.sha256(target.encode()).digest()[0] < 13


def _random_date(rng: Random, held_out: bool) -> date:
    """Return a date on that side of the split, uniform over the years covered."""
    while True:
        day = date.fromordinal(rng.randint(FIRST_DATE.toordinal(), LAST_DATE.toordinal()))
        if is_held_out_date(day.isoformat()) == held_out:
            return day


def training_examples(seed: int, step: int, n: int) -> list[DateExample]:
    """Return the batch of one training step, without held-out dates.

    It is a function of the arguments alone, so that a run can resume.
    """
    rng = Random(f"training {seed} {step}")
    return [write_date(rng, _random_date(rng, held_out=False)) for _ in range(n)]


def held_out_examples(seed: int, n: int) -> list[DateExample]:
    """Return `n` distinct examples on held-out dates."""
    return list(_held_out_examples(seed, n))


@lru_cache(maxsize=8)  # every validation of a run uses the same ones
def _held_out_examples(seed: int, n: int) -> tuple[DateExample, ...]:
    rng = Random(f"held out {seed}")
    by_source: dict[str, DateExample] = {}
    while len(by_source) < n:
        example = write_date(rng, _random_date(rng, held_out=True))
        by_source.setdefault(example.source, example)
    return tuple(by_source.values())
