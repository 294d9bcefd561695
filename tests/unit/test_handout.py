"""A lesson on paper: its content, and requests that the command refuses."""

import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from models import InputError
from viz_app import checkpoints, command, handout
from viz_app.components.catalogue import LESSON
from viz_app.controls import handout_files
from viz_app.controls.lesson_panel import LESSON_KEY, offered_lessons
from viz_app.handout import ShownStep
from viz_app.lessons import library
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
    asked = {"question": EVIL, "text": EVIL, "form": form}
    return lesson_document(offered_lessons().lessons[0], [StepOnPaper(asked, told, 0, None)], EVIL)


@pytest.mark.parametrize("kind", FORMS)
def test_nothing_of_a_lesson_becomes_html(kind: str) -> None:
    told = {"happened": EVIL, "paragraphs": [EVIL, "second"]}
    page = paper(FORMS[kind], told)
    assert "<img" not in page
    assert page.count("&lt;img src=x onerror=alert(1)&gt;") >= 6
    assert 'data-part="0"' in page
    assert "It was: " in page
    assert "It was: " not in paper(FORMS[kind], None)


def test_the_picture_of_the_question_comes_before_what_happened_and_the_other_after_it() -> None:
    asked = {"question": "Why?", "text": "So.", "form": FORMS["choose"]}
    told = {"happened": "a", "paragraphs": ["b"]}
    page = lesson_document(offered_lessons().lessons[0], [StepOnPaper(asked, told, 4, 7)], "")
    assert "<h2>1. Why?</h2>" in page
    before, _, after = page.partition("It was: ")
    assert ('data-part="4"' in before, 'data-part="7"' in before) == (True, False)
    assert ('data-part="4"' in after, 'data-part="7"' in after) == (False, True)


@pytest.mark.parametrize("kind", FORMS)
def test_any_prediction_fits_its_form(kind: str) -> None:
    assert value_of(FORMS[kind], any_prediction(FORMS[kind])) is not None


def test_a_paper_names_every_model_that_its_answers_are_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The names are those of the models that were run; BERT runs for an answer only."""
    lesson, opened = offered_lessons().named("7-three-families"), set()

    def shown(lesson: Lesson, number: int, page: str, query: dict) -> ShownStep:
        opened.update(query["checkpoint"])
        told = {"happened": "a", "paragraphs": []}
        parts = {LESSON_KEY: Mounted(LESSON, {"form": FORMS["choose"], "reveal": told})}
        return ShownStep(parts, set(query["checkpoint"]))

    monkeypatch.setattr(handout, "_shown", shown)
    for has_answers in (False, True):
        opened.clear()
        about = handout.on_paper(lesson, has_answers).about
        assert about.removesuffix(".").split(" are of runs of ")[1].split(", ") == sorted(opened)
        assert ("bert" in opened) == has_answers


def test_the_picture_of_an_answer_is_that_of_the_run_after_the_prediction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lesson = offered_lessons().named("8-explanation")
    lesson = replace(lesson, steps=lesson.steps[:1])

    def shown(lesson: Lesson, number: int, page: str, query: dict) -> ShownStep:
        told = {"happened": "a", "paragraphs": []}
        parts = {LESSON_KEY: Mounted(LESSON, {"form": FORMS["choose"], "reveal": told})}
        picture = Mounted(LESSON, {"edits": "edits" in query})
        return ShownStep(parts | {lesson.steps[0].looks_at: picture}, {"a model"})

    monkeypatch.setattr(handout, "_shown", shown)
    paper = handout.on_paper(lesson, True)
    (step,) = paper.steps
    assert paper.parts[step.question_picture].payload == {"edits": False}
    assert paper.parts[step.reveal_picture].payload == {"edits": True}


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


STEP = """
# A lesson
About it.
minutes: 3

## A question
open: attention{query}
A text.

predict: number nats
look: head
happened: {{run.loss}}
reveal: {{run.loss}}
"""


@pytest.fixture
def own_lesson(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], Lesson]:
    """Return a function that makes a lesson of one step with this address."""
    monkeypatch.setenv(library.LESSONS_VARIABLE, str(tmp_path))

    def make(query: str) -> Lesson:
        (tmp_path / "mine.md").write_text(STEP.format(query=query).lstrip())
        return offered_lessons().named("mine")

    return make


def test_a_handout_names_the_models_of_its_runs_whatever_its_addresses_say(
    own_lesson: Callable[[str], Lesson],
) -> None:
    assert handout.on_paper(own_lesson(""), False).about.endswith(" are of runs of eng-fra.")
    pinned = "?checkpoint=dates&pin.checkpoint=dates-bahdanau"
    about = handout.on_paper(own_lesson(pinned), False).about
    assert about.endswith(" are of runs of dates, dates-bahdanau.")


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("?checkpoint=no-such", "No model called “no-such”"),
        ("?checkpoint=gpt&text=" + "word+" * 400, "tokens"),
    ],
)
def test_a_step_that_cannot_be_shown_fails_at_once_with_the_reason(
    own_lesson: Callable[[str], Lesson], query: str, why: str
) -> None:
    start = time.monotonic()
    with pytest.raises(ValueError, match=f"mine, question 1: .*{why}"):
        handout.on_paper(own_lesson(query), False)
    assert time.monotonic() - start < handout.OPENING_SECONDS / 10


def test_a_handout_is_made_in_the_folder_of_the_app_whose_files_hide_no_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code = (
        "import importlib.util, os, sys\ndef main():\n with open(sys.argv[-1], 'w') as out:\n  "
        "out.write(f'{os.getcwd()} {importlib.util.find_spec(\"mine\")} {sys.argv[1:3]}')"
    )
    package, own = tmp_path / "packages" / "viz_app", tmp_path / "own"
    for file, content in (
        (package / "__init__.py", ""),
        (package / "command.py", code),
        (own / "mine.py", ""),
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    monkeypatch.setattr(
        handout_files, "viz_app", SimpleNamespace(__file__=str(package / "__init__.py"))
    )
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(own)
    made = handout_files.handout_files("6-positions")[0].make()
    assert made == f"{own} None ['handout', '6-positions']"


def late(*command: object, **options: object) -> None:
    raise subprocess.TimeoutExpired("browser", 600)


def test_a_lesson_whose_page_or_print_takes_too_long_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subprocess, "run", late)
    with pytest.raises(ValueError, match="chromium printed nothing within 600 s"):
        handout._printed(b"<p>", "chromium")
    monkeypatch.setattr(handout, "OPENING_SECONDS", 1e-3)
    lesson = offered_lessons().lessons[0]
    with pytest.raises(ValueError, match=f"{lesson.name}, question 1: its page did not open"):
        handout.on_paper(lesson, False)


def test_a_download_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", late)
    with pytest.raises(InputError, match=handout_files.HANDOUT_TOOK_TOO_LONG):
        handout_files.handout_files("6-positions")[0].make()


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_shared_app_tells_no_visitor_what_its_process_wrote(
    is_shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(checkpoints.SHARED_VARIABLE, "1" if is_shared else "")
    failed = subprocess.CompletedProcess("", 1, stderr=b"OSError: /home/teacher/lessons")
    monkeypatch.setattr(subprocess, "run", lambda *command, **options: failed)
    with pytest.raises(InputError) as refused:
        handout_files.handout_files("6-positions")[0].make()
    assert ("/home/teacher" in str(refused.value)) == (not is_shared)


def test_one_handout_at_a_time_is_made_in_all_server_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Processes share no module; here, a second copy of the module stands in for the other process."""
    spec = importlib.util.spec_from_file_location("of_another_process", handout_files.__file__)
    other = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(other)
    monkeypatch.setattr(other, "_make", lambda *asked: "made")

    def make(*asked: object) -> str:
        with pytest.raises(InputError, match=other.HANDOUT_BUSY):
            other._content("6-positions", False)
        return "made"

    monkeypatch.setattr(handout_files, "_make", make)
    assert handout_files._content("6-positions", True) == "made"
    assert other._content("6-positions", False) == "made"
