"""A lesson on paper: what stands in it and what does not, and what the command refuses."""

import sys
from pathlib import Path

import pytest

from viz_app import command, handout
from viz_app.components.catalogue import LESSON
from viz_app.controls.lesson_panel import LESSON_KEY, offered_lessons
from viz_app.lessons.document import StepOnPaper, lesson_document
from viz_app.lessons.form import any_prediction, value_of
from viz_app.lessons.lesson import Lesson
from viz_app.notebook.picture import Mounted

EVIL = "<img src=x onerror=alert(1)>"
FORMS = {
    "choose": {"kind": "choose", "options": [["a", EVIL], ["b", "No"]]},
    "token": {"kind": "token", "tokens": [EVIL, "cat"]},
    "order": {"kind": "order", "tokens": [EVIL, "cat"]},
    "number": {"kind": "number", "unit": EVIL},
    "cells": {"kind": "cells", "rows": [EVIL, "b"], "columns": ["a", EVIL]},
}


def paper(form: dict, told: dict | None) -> str:
    asked = {"question": EVIL, "text": EVIL, "asks": form}
    return lesson_document(offered_lessons().lessons[0], [StepOnPaper(asked, told, 0, None)], EVIL)


@pytest.mark.parametrize("kind", FORMS)
def test_nothing_of_a_lesson_becomes_html(kind: str) -> None:
    told = {"happened": EVIL, "reveal": [EVIL, "second"]}
    page = paper(FORMS[kind], told)
    assert "<img" not in page
    assert page.count("&lt;img src=x onerror=alert(1)&gt;") >= 6
    assert 'data-part="0"' in page
    assert "It was: " in page
    assert "It was: " not in paper(FORMS[kind], None)


@pytest.mark.parametrize("kind", FORMS)
def test_any_prediction_fits_its_form(kind: str) -> None:
    assert value_of(FORMS[kind], any_prediction(FORMS[kind])) is not None


def test_a_paper_names_every_model_that_its_answers_are_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The names are those of the addresses that were opened; only an answer opens BERT."""
    lesson, opened = offered_lessons().named("7-three-families"), set()

    def shown(lesson: Lesson, number: int, page: str, query: dict) -> dict[str, Mounted]:
        opened.update(query["checkpoint"])
        told = {"happened": "a", "reveal": []}
        return {LESSON_KEY: Mounted(LESSON, {"asks": FORMS["choose"], "told": told})}

    monkeypatch.setattr(handout, "_shown", shown)
    for has_answers in (False, True):
        opened.clear()
        about = handout.on_paper(lesson, has_answers).about
        assert about.removesuffix(".").split(" are of runs of ")[1].split(", ") == sorted(opened)
        assert ("bert" in opened) == has_answers


def attnscope(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["attnscope", *arguments])
    return command.main()


def test_the_command_names_the_lessons_and_the_missing_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "x.pdf")
    assert attnscope(monkeypatch, "handout", "no-such", "--out", out) == 1
    assert "6-positions" in capsys.readouterr().err
    monkeypatch.setattr(handout, "BROWSERS", ("no-such-browser",))
    assert attnscope(monkeypatch, "handout", "6-positions", "--out", out) == 1
    assert "print it" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
