"""A class in the app: a teacher and three pupils, each in their own session, and the limits of what a session may see and do."""

from pathlib import Path

import pytest
from app_parts import app_at, in_session, prose, said
from streamlit.testing.v1 import AppTest

import models
from viz_app import common_folder
from viz_app.controls.lesson_panel import offered_lessons
from viz_app.lessons.form import form_of
from viz_app.session import class_route, class_state
from viz_app.session.classes import open_classes
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import LiveSession

LESSON = "6-positions"
STEP = {
    "checkpoint": "eng-fra",
    "source": "Tom hit Mary.",
    "site": "decoder.layers.1.cross_attn",
}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(common_folder.VARIABLE, str(tmp_path))


@pytest.fixture
def code() -> str:
    return open_classes().start("t" * 22, LESSON)


def session_of(app: AppTest) -> LiveSession:
    return app.session_state["live session"]


def as_teacher(app: AppTest) -> AppTest:
    session_of(app).member.person = "t" * 22
    return app.run()


def test_a_teacher_and_three_pupils(code: str) -> None:
    teacher, *pupils = (app_at("", **STEP, **{"class": code}) for _ in range(4))
    as_teacher(teacher)
    assert said(teacher, "lesson")["role"] == "teacher"
    assert said(teacher, "lesson")["form"] is None
    for pupil, prediction in zip(pupils, ("yes", "no", "yes"), strict=True):
        asked = said(pupil, "lesson")
        assert (asked["role"], asked["form"]["kind"], asked["reveal"]) == ("pupil", "choose", None)
        session = session_of(pupil)
        form = open_classes().form(code, 1)
        open_classes().vote(code, session.member.person, 1, form, prediction)
        waits = said(pupil.run(), "lesson")
        assert waits["reveal"] is None
        assert waits["waiting"]["prediction"].startswith(prediction.capitalize())
        assert "histogram" not in said(pupil, "classroom")["news"]
    counts = [bar["n"] for bar in said(teacher.run(), "classroom")["news"]["histogram"]["bars"]]
    assert counts == [2, 1]
    assert (
        said(teacher, "classroom")["news"]["pupils"] == 4
    )  # the teacher's page joined as a pupil first
    open_classes().release(code, "t" * 22)
    told = said(pupils[0].run(), "lesson")["reveal"]
    assert told["agrees"] is True
    assert said(pupils[1].run(), "lesson")["reveal"]["agrees"] is False
    (first, second) = said(pupils[1], "classroom")["news"]["histogram"]["bars"]
    assert (first["n"], first["happened"], second["n"], second["happened"]) == (2, True, 1, False)


@pytest.mark.slow
def test_a_pupil_who_types_sees_the_outcome_of_the_run_that_was_predicted() -> None:
    code = open_classes().start("t" * 22, "2-alignment")
    scope = models.load("eng-fra-bahdanau")
    source = "The black cat is here."
    run = CurrentRun(scope, scope.run(source))
    form = form_of(offered_lessons().named("2-alignment").steps[0].prediction, run)
    open_classes().set_form(code, "t" * 22, 1, form)
    pupil = app_at("task", checkpoint=scope.name, source=source, **{"class": code})
    person = session_of(pupil).member.person
    open_classes().vote(code, person, 1, form, "2")
    waits = said(pupil.run(), "lesson")["waiting"]
    assert waits["prediction"] == "cat"
    pupil.text_area(key="source").set_value("My old brother is here.").run()
    assert said(pupil, "lesson")["waiting"]["prediction"] is None
    open_classes().release(code, "t" * 22)
    pupil = app_at("", checkpoint=scope.name, source=source, lock="q2", **{"class": code})

    def ticked() -> list[str]:
        bars = said(pupil, "classroom")["news"]["histogram"]["bars"]
        return [bar["says"] for bar in bars if bar["happened"]]

    assert ticked() == ["black"]
    for text in ("My old brother is here.", "I do not know him."):
        pupil.text_area(key="source").set_value(text).run()
        assert ticked() == []
    pupil.text_area(key="source").set_value(source).run()
    assert ticked() == ["black"]


def test_the_form_of_a_class_is_not_made_from_another_text() -> None:
    code = open_classes().start("t" * 22, "2-alignment")
    asked = {"checkpoint": "eng-fra-bahdanau", "source": "The black cat is here."}
    teacher = app_at("task", **asked, **{"class": code})
    teacher.text_area(key="source").set_value("We like big dogs.").run()
    as_teacher(teacher)
    assert open_classes().form(code, 1) is None
    teacher.text_area(key="source").set_value(asked["source"]).run()
    assert open_classes().form(code, 1)["tokens"][1] == "black"


def test_the_next_class_of_a_teacher_ticks_nothing_before_its_reveal(code: str) -> None:
    teacher = as_teacher(app_at("", **STEP, **{"class": code}))

    def ticked() -> list[bool]:
        return [bar["happened"] for bar in said(teacher, "classroom")["news"]["histogram"]["bars"]]

    open_classes().release(code, "t" * 22)
    teacher.run()
    assert any(ticked())
    following = open_classes().start("t" * 22, LESSON)
    with in_session(teacher):
        class_state.enter_class(following)
    teacher.run()
    assert not said(teacher, "classroom")["is_released"]
    assert not any(ticked())


def test_a_class_ends_for_everyone(code: str) -> None:
    pupil = app_at("", **STEP, **{"class": code})
    open_classes().end(code, "t" * 22)
    pupil.run()
    assert class_state.ENDED in prose(pupil)
    assert session_of(pupil).member.code == ""
    assert said(pupil, "lesson")["role"] == ""


def test_the_step_is_the_teachers_whatever_the_address(code: str) -> None:
    """A pupil who writes another step into the address does not see that step's reveal."""
    open_classes().release(code, "t" * 22)
    pupil = app_at(
        "", **STEP, **{"class": code, "lesson": LESSON, "lesson-step": "4", "predicted": "4.yes"}
    )
    assert said(pupil, "lesson")["step"] == 1


def test_wrong_codes_are_reported_and_limited(code: str) -> None:
    app = app_at("", **{"class": "00000000"})
    assert "There is no class 00000000" in prose(app)
    app = app_at("lessons")
    for i in range(class_state.MAX_WRONG_CODES):
        app.text_input(key="class-code").set_value(f"1111 000{i}")
        app.button(key="class-join").click().run()
        assert "There is no class" in prose(app)
    app.text_input(key="class-code").set_value(code)
    app.button(key="class-join").click().run()
    assert class_state.TOO_MANY in prose(app)
    assert open_classes().pupils(code) == 0


@pytest.mark.parametrize("text", ["", "<b>1</b>", "9" * 5000, "12 34-56.78", "🐈"])
def test_no_code_that_is_typed_breaks_the_page(text: str) -> None:
    app = app_at("lessons")
    app.text_input(key="class-code").set_value(text[:20])
    app.button(key="class-join").click().run()
    assert not app.exception
    assert said(app, "lesson_list")


def test_before_the_reveal_only_the_teacher_knows_the_votes(code: str) -> None:
    teacher, pupil = LiveSession(), LiveSession()
    teacher.member.person, teacher.member.code = "t" * 22, code
    pupil.member.person, pupil.member.code = "p" * 22, code
    open_classes().join(code, "p" * 22)
    form = {"kind": "number", "unit": "words"}
    open_classes().set_form(code, "t" * 22, 1, form)
    open_classes().vote(code, "p" * 22, 1, form, "4")
    before = class_state.version(class_state.class_update(pupil))
    assert set(class_state.class_update(pupil)) == {"stage"}
    assert class_state.class_update(teacher)["votes"] == 1
    assert class_state.class_update(LiveSession()) is None
    assert class_state.leads_class(teacher)
    assert not class_state.leads_class(pupil)
    open_classes().release(code, "t" * 22)
    assert class_state.class_update(pupil)["votes"] == 1
    assert class_state.version(class_state.class_update(pupil)) != before
    table = class_route._csv(code).splitlines()
    assert table == ["step,prediction,count", "1,4 words,1"]


def test_the_table_of_predictions_runs_no_formula(code: str) -> None:
    form = {"kind": "choose", "options": [["a", "=HYPERLINK(1)"], ["b", "b"]]}
    open_classes().set_form(code, "t" * 22, 1, form)
    open_classes().join(code, "p" * 22)
    open_classes().vote(code, "p" * 22, 1, form, "a")
    assert class_route._csv(code).splitlines()[1] == "1,'=HYPERLINK(1),1"


def test_the_table_distinguishes_two_masks_with_as_many_cells(code: str) -> None:
    form = {"kind": "cells", "rows": ["a", "b"], "columns": ["a", "b"]}
    open_classes().set_form(code, "t" * 22, 1, form)
    for person, mask in (("p" * 22, "10-11"), ("q" * 22, "11-01")):
        open_classes().join(code, person)
        open_classes().vote(code, person, 1, form, mask)
    rows = class_route._csv(code).splitlines()[1:]
    assert rows == ["1,3 of 4 cells: 10-11,1", "1,3 of 4 cells: 11-01,1"]


def test_the_form_of_the_class_is_that_of_the_lesson(code: str) -> None:
    teacher = as_teacher(app_at("", **STEP, **{"class": code}))
    step = offered_lessons().named(LESSON).steps[0]
    assert open_classes().form(code, 1) == form_of(step.prediction, session_of(teacher).shown)
