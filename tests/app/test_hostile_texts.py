"""The short form of `python -m tests.robustness.texts`; that of `tests.robustness.load` is in test_served.py."""

from collections import Counter

import pytest

from models import InputError
from tests.robustness import texts


def test_hostile_texts_are_read_or_refused_and_are_only_text() -> None:
    found = texts.count(texts.hostile(30, seed=2), pages=6, shown=0)
    assert (found["failed"], found["injected nodes"]) == (0, 0)
    assert (found["run by dates"], found["answered live"], found["shown by a page"]) == (60, 30, 6)
    assert 0 < found["run by eng-fra: refused"] < 30


def test_the_texts_are_the_same_for_a_seed_and_hold_every_sort() -> None:
    drawn = texts.hostile(300)
    assert drawn == texts.hostile(300) != texts.hostile(300, seed=2)
    assert max(map(len, drawn)) >= 100_000
    together = "".join(drawn)
    assert all(sign in together for signs in texts.SIGNS.values() for sign in signs)
    assert sum(markup in together for markup in texts.PASTED) > len(texts.PASTED) * 0.8


def test_failures_are_counted_and_refusals_are_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found: Counter = Counter()
    for error in (ValueError("x"), InputError("too long", "source"), SystemExit()):
        with texts.counted(found, "run", "text"):
            raise error
    assert found == {"run": 3, "failed": 2, "run: refused": 1}
    assert "'text' (4 characters)" in capsys.readouterr().out
