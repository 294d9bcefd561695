"""The dates task, checked by a second reader, written from its stated rules, and by datetime."""

import re
import unicodedata
from datetime import date, datetime
from hashlib import sha256
from random import Random

import pytest
from checked import unchecked

from models.tasks import date_formats as dates
from models.tasks import date_languages
from models.tasks.dates import DatesTask

# The first letters, unaccented, that tell the months of all seven languages apart.
MONTH_STARTS = {
    "jan": 1, "gen": 1, "ene": 1, "feb": 2, "fev": 2, "mar": 3, "mrt": 3, "maa": 3, "apr": 4, "abr": 4, "avr": 4,
    "may": 5, "mai": 5, "mei": 5, "mag": 5, "jun": 6, "juin": 6, "giu": 6, "jul": 7, "juil": 7, "lug": 7,
    "aug": 8, "ago": 8, "aou": 8, "sep": 9, "set": 9, "okt": 10, "oct": 10, "ott": 10, "out": 10, "nov": 11,
    "dec": 12, "dez": 12, "dic": 12,
}  # fmt: skip
MONTH = re.compile(r"\b(" + "|".join(sorted(MONTH_STARTS, key=len, reverse=True)) + ")")

# The first letters, unaccented, of each language's weekdays, Monday first; a row names them all.
WEEKDAY_STARTS = {
    "English": "mon tue wed thu fri sat sun",
    "French": "lun mar mer jeu ven sam dim",
    "German": "mo di mi do fr sa so",
    "Spanish": "lun mar mie jue vie sab dom",
    "Italian": "lun mar mer gio ven sab dom",
    "Portuguese": "seg ter qua qui sex sab dom",
    "Dutch": "ma di wo do vr za zo",
}

STRPTIME = {  # datetime's form of each pattern in digits; it reads padded and unpadded numbers alike
    f"Digits: {pattern.format(sep=sep)}": form.format(sep=sep)
    for pattern, form in {
        "yyyy{sep}mm{sep}dd": "%Y{sep}%m{sep}%d",
        "yyyy{sep}m{sep}d": "%Y{sep}%m{sep}%d",
        "dd{sep}mm{sep}year": "%d{sep}%m{sep}%Y",
        "d{sep}m{sep}year": "%d{sep}%m{sep}%Y",
        "yyyymmdd": "%Y%m%d",
    }.items()
    for sep in "-/. "
}


def unaccented(text: str) -> str:
    return "".join(
        c for c in unicodedata.normalize("NFD", text.lower()) if not unicodedata.combining(c)
    )


def read_date(source: str) -> str:
    """Return the date that a person reads in `source`, by the rules in the docstring of models.tasks.date_formats alone."""
    numbers = re.findall(r"\d+", source)
    if re.search(r"\d{8}", source):
        year, month, day = source[-8:-4], source[-4:-2], source[-2:]
    elif len(numbers) == 3:
        year, month, day = numbers if len(numbers[0]) == 4 else numbers[::-1]
    else:
        year, day = numbers if len(numbers[0]) == 4 else numbers[::-1]
        month = MONTH_STARTS[
            MONTH.findall(unaccented(source))[-1]
        ]  # a weekday, as in "mar 5 mar", comes first
    if len(year) == 2:
        year = int(year) + (1900 if int(year) >= 69 else 2000)
    return date(int(year), int(month), int(day)).isoformat()


@pytest.fixture(scope="module")
def many() -> list[dates.DateExample]:
    """Return many examples, from both sides of the split."""
    rng, first, last = Random(7), dates.FIRST_DATE.toordinal(), dates.LAST_DATE.toordinal()
    with unchecked():
        return [
            dates.write_date(rng, date.fromordinal(rng.randint(first, last))) for _ in range(60_000)
        ]


def test_a_reader_written_from_the_rules_reads_every_string(many):
    wrong = [(e, read_date(e.source)) for e in many if read_date(e.source) != e.target]
    assert wrong == []


def test_no_string_means_two_dates(many):
    meaning = {}
    for e in many:
        assert meaning.setdefault(e.source, e.target) == e.target, e.source


def test_all_writings_of_a_pair_of_easily_swapped_dates_are_distinct():
    days = (
        date(2005, 3, 4),
        date(2005, 4, 3),
        date(2003, 4, 5),
        date(2004, 3, 5),
        date(2004, 5, 3),
    )
    with unchecked():
        written = [{dates.write_date(Random(i), day).source for i in range(6_000)} for day in days]
    assert len(set().union(*written)) == sum(map(len, written))


def test_strings_in_digits_are_what_strptime_reads(many):
    seen = set()
    for e in many:
        if form := STRPTIME.get(e.format):
            digits = re.search(r"\d.*", e.source).group()
            if not re.search(r"\d{4}", digits):
                form = form.replace("%Y", "%y")  # Python follows POSIX's pivot too
            assert datetime.strptime(digits, form).date().isoformat() == e.target
            seen.add(e.format)
    assert seen == set(STRPTIME)


def weekday_names(e: dates.DateExample) -> tuple[list[str], list[str]]:
    """Return the weekday in a source (a list of one, or empty), and rows of what the seven may start with."""
    language = e.format.split(":")[0]
    if language in ("Chinese", "Japanese"):
        rest = re.sub(r"^\d+(年\d+月\d+日|/\d+/\d+)", "", e.source).strip("()")
        name = rest.removeprefix("星期").removeprefix("周").removesuffix("曜日")
        return [name] if name else [], ["一 二 三 四 五 六 日", "月 火 水 木 金 土 日"]
    rows = list(WEEKDAY_STARTS.values()) if language == "Digits" else [WEEKDAY_STARTS[language]]
    words = [
        w for w in re.findall(r"[a-z]+", unaccented(e.source)) if w not in ("de", "del", "den")
    ]
    if language != "Digits":  # "mar 5 mar": the month is the last word that can be one
        del words[max(i for i, w in enumerate(words) if MONTH.match(w))]
    return [w for w in words if w.startswith(tuple(" ".join(rows).split()))][:1], rows


def test_a_weekday_is_the_true_one(many):
    seen = set()
    for e in many:
        named, rows = weekday_names(e)
        weekday = date.fromisoformat(e.target).weekday()
        if named:
            assert named[0].startswith(tuple(row.split()[weekday] for row in rows)), e
            seen.add((e.format.split(":")[0], weekday))
    assert len(seen) == 10 * 7


def test_the_alphabet_holds_exactly_the_letters_that_occur(many):
    assert "".join(sorted({c for e in many for c in e.source + e.target})) == dates.DATE_ALPHABET
    tables = "".join(
        row for language in date_languages.LANGUAGES for row in language.weekdays + language.months
    )
    assert set(tables + tables.upper() + tables.lower()) <= set(dates.DATE_ALPHABET)


def test_lengths_and_spacing(many):
    assert max(len(e.source) for e in many) <= dates.MAX_SOURCE_LENGTH
    assert {len(e.target) for e in many} == {dates.TARGET_LENGTH}
    assert all(e.source == " ".join(e.source.split()) for e in many)


def test_longest_possible_source_fits():
    longest = max(
        len(pattern.format(w=weekday + ", ", d=30, dd=30, nth=language.nth[30], m=12, mm=12, month=name, mon=name,
                           year=2049, yyyy=2049))
        for language in date_languages.LANGUAGES
        for pattern in language.patterns
        for weekday in " ".join(language.weekdays or date_languages.PORTUGUESE.weekdays).split()
        for name in " ".join(language.months).split() or [""]
    )  # fmt: skip
    assert longest <= dates.MAX_SOURCE_LENGTH


def test_every_year_month_day_and_leap_day_occurs(many):
    days = {date.fromisoformat(e.target) for e in many}  # fromisoformat refuses a 30 February
    leap_year = {date.fromordinal(date(2024, 1, 1).toordinal() + i) for i in range(366)}
    assert {d.year for d in days} == set(range(1950, 2050))
    assert {(d.month, d.day) for d in days} == {(d.month, d.day) for d in leap_year}


def test_every_pattern_of_every_language_occurs(many):
    assert len({e.format for e in many}) == sum(
        len(language.patterns) for language in date_languages.LANGUAGES
    )


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("5/3/68", "2068-03-05"),
        ("5/3/69", "1969-03-05"),
        ("5/3/00", "2000-03-05"),
        ("5/3/99", "1999-03-05"),
    ],
)
def test_short_years_follow_posix(source, target):
    assert read_date(source) == datetime.strptime(source, "%d/%m/%y").date().isoformat() == target


def test_short_years_are_written_only_where_the_pivot_gives_them_back(many):
    short = [e for e in many if not re.search(r"\d{4}", e.source)]
    assert min(e.target for e in short)[:4] == "1969"
    assert max(e.target for e in short)[:4] == "2049"


def test_english_ordinals_against_a_hand_written_table():
    table = "1st 2nd 3rd 4th 5th 6th 7th 8th 9th 10th 11th 12th 13th 14th 15th 16th 17th 18th 19th 20th 21st 22nd 23rd"
    table += " 24th 25th 26th 27th 28th 29th 30th 31st"
    assert list(date_languages.ENGLISH.nth[1:]) == table.split()


def test_month_rows_agree_with_the_reader():
    for language in date_languages.WITH_MONTH_NAMES:
        for row in language.month_rows:
            assert [int(read_date(f"5 {name} 2019")[5:7]) for name in row] == list(range(1, 13)), (
                row
            )
        assert not any("." in name for name in language.month_rows[1])
        assert all(len(row) == 7 for row in language.weekday_rows)


def test_a_step_does_not_depend_on_the_steps_before():
    alone = dates.training_examples(11, 2, 37)
    in_turn = [dates.training_examples(11, step, 37) for step in range(3)]
    assert in_turn[2] == alone
    assert in_turn[0] != in_turn[1] != in_turn[2]
    assert dates.training_examples(12, 2, 37) != alone
    assert dates.training_examples(1, 12, 37) != dates.training_examples(11, 2, 37)


@unchecked()
def test_training_and_held_out_share_no_date():
    training = [e for step in range(80) for e in dates.training_examples(1, step, 256)]
    held_out = dates.held_out_examples(1, 2_003)
    assert len({e.source for e in held_out}) == len(held_out) == 2_003
    assert all(dates.is_held_out_date(e.target) for e in held_out)
    assert not any(dates.is_held_out_date(e.target) for e in training)
    assert {e.target for e in training}.isdisjoint(e.target for e in held_out)


@unchecked()
def test_no_string_is_both_validated_and_tested_on():
    task = DatesTask()
    tested = {
        tuple(source)
        for source in task.tokenizer.encode_many([case.source for case in task.held_out()])
    }
    validated = [tuple(source) for source, _ in task.validation()]
    assert (len(tested), len(validated)) == (2000, 1000)
    assert not tested & set(validated)
    assert [case.source for case in task.held_out(7, validation=True)] == [
        task.tokenizer.decode(list(source)) for source in validated[:7]
    ]  # fmt: skip


def test_batches_are_the_training_examples_of_one_step_after_the_other():
    task = DatesTask(batch_size=11)
    for step, batch in zip(range(3), task.batches(5), strict=False):
        written = [
            (task.tokenizer.decode(list(s)), task.tokenizer.decode(list(t))) for s, t in batch
        ]
        assert written == [(e.source, e.target) for e in dates.training_examples(5, step, 11)]
    assert len(next(DatesTask().batches(5))) == 256


def test_the_examples_are_those_that_the_shipped_checkpoints_were_trained_and_scored_on():
    """Golden: another share of a language, another chance of a weekday or another seed gives other dates and other spellings."""
    task = DatesTask()
    training = [e for step in range(3) for e in dates.training_examples(1, step, 500)]
    held_out = [
        c for validation in (False, True) for c in task.held_out(300, validation=validation)
    ]
    assert sha256(repr(training).encode()).hexdigest()[:16] == "f334905ea918399c"
    assert sha256(repr(held_out).encode()).hexdigest()[:16] == "730716b62c721dbc"


def test_about_five_percent_of_dates_are_held_out():
    days = range(dates.FIRST_DATE.toordinal(), dates.LAST_DATE.toordinal() + 1)
    # Golden count: a change would put trained dates into the held-out set of every shipped checkpoint.
    assert (
        sum(dates.is_held_out_date(date.fromordinal(d).isoformat()) for d in days),
        len(days),
    ) == (
        1_820,
        36_525,
    )


@pytest.mark.parametrize(("label", "source"), dates.SOURCE_EXAMPLES)
def test_shown_examples_belong_to_the_task_and_are_held_out(label, source):
    target = read_date(source)
    assert label
    assert dates.is_held_out_date(target)
    rng = Random(5)
    assert any(
        dates.write_date(rng, date.fromisoformat(target)).source == source for _ in range(60_000)
    )
