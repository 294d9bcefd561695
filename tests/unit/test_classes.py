"""Classes: their codes, votes and reveals, what each person may do, and that nothing is left when one ends."""

import csv
import io
import sqlite3
import threading
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace

import pytest

from viz_app.lessons.form import MAX_PREDICTION, value_of, words_of
from viz_app.lessons.histogram import histogram
from viz_app.session import class_route, class_state
from viz_app.session import classes as module
from viz_app.session.classes import (
    MAX_OPEN_CLASSES,
    MAX_PUPILS,
    ClassError,
    Classes,
    ClassStatus,
    spaced_code,
)
from viz_app.session.live import Member

CHOICE = {"kind": "choose", "options": [["yes", "Yes, it does"], ["no", "No"]]}
NUMBER = {"kind": "number", "unit": "heads"}
TOKEN = {"kind": "token", "tokens": ["The", "cat", "."]}
ORDER = {"kind": "order", "tokens": ["We", "drank", "tea"]}
CELLS = {"kind": "cells", "rows": ["a", "b"], "columns": ["a", "b", "c"]}
TEACHER = "t" * 22


@pytest.fixture
def held(tmp_path: Path) -> Classes:
    return Classes(tmp_path)


def start_class(held: Classes, form: dict = CHOICE, pupils: int = 3) -> str:
    code = held.start(TEACHER, "6-positions")
    held.set_form(code, TEACHER, 1, form)
    for i in range(pupils):
        held.join(code, f"pupil {i}")
    return code


def test_pupils_predict_and_the_teacher_shows_what_happened(held: Classes) -> None:
    code = start_class(held)
    for i, said in enumerate(("yes", "no", "yes")):
        held.vote(code, f"pupil {i}", 1, CHOICE, said)
    assert held.votes(code, 1) == [("no", 1), ("yes", 2)]
    assert held.pupils(code) == 3
    assert held.predictions(code, "pupil 1") == {1: "no"}
    assert held.predictions(code, "pupil 9") == {}
    assert not held.status(code).is_released
    held.release(code, TEACHER)
    assert held.status(code).is_released
    held.open_step(code, TEACHER, 2)
    assert (held.status(code).step, held.status(code).is_released) == (2, False)
    held.open_step(code, TEACHER, 1)
    assert held.status(code).is_released  # a reveal is not taken back
    assert [
        (step, form["kind"], votes) for step, form, votes in held.predictions_by_step(code)
    ] == [(1, "choose", [("no", 1), ("yes", 2)])]


def test_a_code_is_eight_digits_and_no_two_classes_share_one(held: Classes) -> None:
    codes = [held.start(f"teacher {i}", "a-lesson") for i in range(MAX_OPEN_CLASSES)]
    assert len(set(codes)) == MAX_OPEN_CLASSES
    assert all(len(code) == 8 and code.isdecimal() for code in codes)
    assert spaced_code("12345678") == "1234 5678"
    with pytest.raises(ClassError, match=str(MAX_OPEN_CLASSES)):
        held.start("one more", "a-lesson")
    held.start("teacher 0", "a-lesson")  # in place of an own one
    assert held.status(codes[0]) is None


def test_ten_thousand_guesses_find_no_class(held: Classes) -> None:
    code = start_class(held)
    guesses = (f"{i * 9973 % 10**8:08}" for i in range(10_000))
    assert not [guess for guess in guesses if guess != code and held.status(guess)]


@pytest.mark.parametrize("person", ["pupil 0", "", "a stranger"])
def test_only_the_teacher_leads(held: Classes, person: str) -> None:
    code = start_class(held)
    for act in (
        lambda: held.release(code, person),
        lambda: held.open_step(code, person, 2),
        lambda: held.end(code, person),
        lambda: held.set_form(code, person, 1, NUMBER),
    ):
        with pytest.raises(ClassError, match="Only the teacher"):
            act()
    assert held.status(code).stage == "1.0"
    assert held.form(code, 1) == CHOICE


def test_a_pupil_predicts_once(held: Classes) -> None:
    code = start_class(held)
    held.vote(code, "pupil 0", 1, CHOICE, "yes")
    with pytest.raises(ClassError, match="already"):
        held.vote(code, "pupil 0", 1, CHOICE, "no")
    assert held.votes(code, 1) == [("yes", 1)]


REFUSED = {
    "before joining": ("a stranger", 1, CHOICE, "yes", "not joined"),
    "another step": ("pupil 0", 2, CHOICE, "yes", "moved on"),
    "another text": ("pupil 0", 1, TOKEN, "1", "a different text"),
    "no option": ("pupil 0", 1, CHOICE, "perhaps", "a different run"),
    "markup": ("pupil 0", 1, CHOICE, "<script>alert(1)</script>", "a different run"),
    "a megabyte": ("pupil 0", 1, CHOICE, "yes" * 350_000, "too long"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_predictions_do_not_count(held: Classes, case: str) -> None:
    person, step, form, said, why = REFUSED[case]
    code = start_class(held)
    with pytest.raises(ClassError, match=why):
        held.vote(code, person, step, form, said)
    assert held.votes(code, 1) == held.votes(code, 2) == []


def test_nothing_counts_once_it_is_shown_or_ended(held: Classes) -> None:
    code = start_class(held)
    held.release(code, TEACHER)
    with pytest.raises(ClassError, match="moved on"):
        held.vote(code, "pupil 0", 1, CHOICE, "yes")
    held.end(code, TEACHER)
    with pytest.raises(ClassError, match="ended"):
        held.vote(code, "pupil 0", 1, CHOICE, "yes")


def test_a_class_is_bounded(held: Classes) -> None:
    code = start_class(held, pupils=MAX_PUPILS)
    with pytest.raises(ClassError, match=str(MAX_PUPILS)):
        held.join(code, "one more")
    held.join(code, "pupil 7")  # those who are in it stay in it
    held.join("00000000", "nobody")  # no class: nothing is kept
    assert held.pupils("00000000") == 0
    with pytest.raises(ClassError, match="too long"):
        held.set_form(code, TEACHER, 2, {"kind": "token", "tokens": ["x" * 30_000]})


def test_nothing_is_left_of_a_class_that_has_ended(held: Classes, tmp_path: Path) -> None:
    code = start_class(held)
    held.vote(code, "pupil 0", 1, CHOICE, "yes")
    held.end(code, TEACHER)
    left = b"".join(
        path.read_bytes() for path in tmp_path.iterdir() if path.suffix != ".sqlite-shm"
    )
    assert b"pupil 0" not in left
    assert code.encode() not in left
    with sqlite3.connect(tmp_path / "classes.sqlite") as db:
        for table in ("class", "step", "pupil", "vote"):
            assert db.execute(f"SELECT COUNT(*) FROM {table}").fetchone() == (0,), table
    assert held.predictions(code, "pupil 0") == {}


def test_a_class_ends_an_hour_after_its_teacher_was_last_there(
    held: Classes, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, now = start_class(held), module.time.time()
    monkeypatch.setattr(module.time, "time", lambda: now + module.AWAY + 1)
    held.join(code, "pupil 1")
    assert held.pupils(code) == 1
    monkeypatch.setattr(module.time, "time", lambda: now + module.EXPIRES - 1)
    held.join(code, TEACHER)
    monkeypatch.setattr(module.time, "time", lambda: now + module.EXPIRES + 1)
    assert held.status(code)
    monkeypatch.setattr(module.time, "time", lambda: now + 2 * module.EXPIRES + 1)
    assert held.status(code) is None


def test_a_hundred_pupils_predict_at_once_over_two_connections_to_one_file(tmp_path: Path) -> None:
    first, second = Classes(tmp_path), Classes(tmp_path)
    code = start_class(first, pupils=100)
    errors = []

    def vote(i: int) -> None:
        try:
            (first, second)[i % 2].vote(code, f"pupil {i}", 1, CHOICE, ("yes", "no")[i % 3 == 0])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=vote, args=(i,)) for i in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert second.votes(code, 1) == [("no", 34), ("yes", 66)]


@pytest.mark.parametrize(
    ("form", "said", "value", "words"),
    [
        (CHOICE, "yes", "yes", "Yes, it does"),
        (NUMBER, "-3.5", -3.5, "-3.5 heads"),
        (NUMBER, "1", 1.0, "1 head"),
        (TOKEN, "1", 1, "cat"),
        (ORDER, "2-0-1", (2, 0, 1), "tea, We, drank"),
        (CELLS, "100-011", ((True, False, False), (False, True, True)), "3 of 6 cells"),
    ],
)
def test_a_prediction_is_read(form: dict, said: str, value: object, words: str) -> None:
    assert value_of(form, said) == value
    assert words_of(form, value_of(form, said)) == words


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (CHOICE, ""),
        (NUMBER, "nan"),
        (NUMBER, "1e999"),
        (NUMBER, "9" * 10),
        (NUMBER, "٣"),
        (TOKEN, "3"),
        (TOKEN, "-1"),
        (TOKEN, "0-1"),
        (ORDER, "0-1"),
        (ORDER, "0-1-1"),
        (CELLS, "100"),
        (CELLS, "100-0111"),
        (CELLS, "1" * (MAX_PREDICTION + 1)),
    ],
)
def test_what_does_not_fit_the_form_is_refused(form: dict, said: str) -> None:
    with pytest.raises(ValueError, match="a different run"):
        value_of(form, said)


VOTES = [("7", 3), ("12", 2)]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The session of a teacher: five pupils have predicted a number in step 2, and one of them has left."""
    classes = SimpleNamespace(
        status=lambda code: ClassStatus(code, "a lesson", 2, False),
        is_led_by=lambda code, person: True,
        votes=lambda code, step: VOTES,
        pupils=lambda code: 4,
        form=lambda code, step: NUMBER,
        predictions_by_step=lambda code: [(2, NUMBER, VOTES)],
    )
    for reader in (class_state, class_route):
        monkeypatch.setattr(reader, "open_classes", lambda: classes)
    return SimpleNamespace(member=Member("teacher", "12345678"))


def test_the_predictions_of_a_class_are_counted_by_pupils(counted: SimpleNamespace) -> None:
    update = class_state.class_update(counted)
    assert (update["pupils"], update["votes"]) == (4, 5)
    assert [(bar["says"], bar["n"]) for bar in update["histogram"]["bars"]] == [
        ("7 heads", 3), ("12 heads", 2),
    ]  # fmt: skip


def test_the_file_of_a_class_has_each_prediction_beside_its_count(
    counted: SimpleNamespace,
) -> None:
    rows = list(csv.DictReader(io.StringIO(class_route._csv(counted.member.code))))
    assert rows == [
        {"step": "2", "prediction": "7 heads", "count": "3"},
        {"step": "2", "prediction": "12 heads", "count": "2"},
    ]


def bars(form: dict, votes: list, happened: object = None) -> list[tuple[str, int, bool]]:
    found = histogram(form, votes, happened)["bars"]
    return [(bar["says"], bar["n"], bar["happened"]) for bar in found]


def test_options_and_tokens_have_a_bar_each() -> None:
    assert bars(CHOICE, [("no", 5)], "no") == [("Yes, it does", 0, False), ("No", 5, True)]
    assert bars(TOKEN, [("1", 2), ("2", 1)], 2) == [
        ("The", 0, False), ("cat", 2, False), (".", 1, True),
    ]  # fmt: skip


def test_few_numbers_have_a_bar_each_and_many_are_binned() -> None:
    assert bars(NUMBER, [("7", 2), ("10", 1), ("7.0", 1)], 7.0) == [
        ("7 heads", 3, True), ("10 heads", 1, False),
    ]  # fmt: skip
    binned = bars(NUMBER, [(str(i), 1) for i in range(3, 52)], 18.0)
    assert [n for _, n, _ in binned] == [7, 10, 10, 10, 10, 2]
    assert [says for says, _, _ in binned][:2] == ["0 to 10", "10 to 20"]
    assert [says for says, _, so in binned if so] == ["10 to 20"]
    wide = bars(NUMBER, [(str(i), 1) for i in (-999999999, 999999999, 0, 1, 2, 3, 4, 5, 6.5)])
    assert len(wide) <= 12
    assert sum(n for _, n, _ in wide) == 9
    tiny = bars(NUMBER, [(f"0.{i:09}", 1) for i in range(20)])
    assert sum(n for _, n, _ in tiny) == 20


def test_a_number_at_the_bound_of_an_interval_is_in_the_one_above_it() -> None:
    tenths = [f"0.{i}" for i in range(1, 10)]
    for happened in tenths:
        found = bars(NUMBER, [(tenth, 1) for tenth in tenths], float(happened))
        assert [n for _, n, _ in found] == [1] * 9
        assert [says.split()[0] for says, _, so in found if so] == [happened]
    large = bars(NUMBER, [(str(i), 1) for i in (*range(1, 9), 999_999_999)])
    assert large[1][0] == "200,000,000 to 400,000,000"
    assert bars(NUMBER, [("0.00001", 1), ("1234567", 1)]) == [
        ("0.00001 heads", 1, False),
        ("1,234,567 heads", 1, False),
    ]


def test_the_right_order_has_a_bar_and_no_prediction_is_left_out() -> None:
    form = {"kind": "order", "tokens": ["We", "drank", "tea", "."]}
    orders = list(permutations(range(4)))[:12]
    votes = [("-".join(map(str, order)), 2) for order in orders]
    found = bars(form, votes, orders[10])
    assert sum(n for _, n, _ in found) == 24
    right = ", ".join(form["tokens"][i] for i in orders[10])
    assert [bar for bar in found if bar[2]] == [(right, 2, True)]
    assert found[-1] == ("other orders", 6, False)


def test_the_most_frequent_orders_have_bars_and_cells_are_counted() -> None:
    found = bars(ORDER, [("0-1-2", 3), ("2-1-0", 9)], (0, 1, 2))
    assert found == [("tea, drank, We", 9, False), ("We, drank, tea", 3, True)]
    cells = histogram(CELLS, [("100-010", 2), ("100-111", 1)])
    assert cells["cells"] == [[3, 0, 0], [1, 3, 1]]
    assert (cells["rows"], cells["columns"]) == (["a", "b"], ["a", "b", "c"])
