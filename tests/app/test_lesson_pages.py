"""Each step of each shipped lesson, opened by its address before and after a prediction."""

from pathlib import Path
from typing import Any

import pytest
import torch
from app_parts import app_at, said
from streamlit.testing.v1 import AppTest

import models
import viz_app.navigation  # noqa: F401  # declares every URL parameter
from models.analysis.shuffle import without_positions
from viz_app.controls.lesson_panel import offered_lessons
from viz_app.lessons import library
from viz_app.lessons.lesson import (
    CELLS_STEP,
    CHOOSE_STEP,
    NUMBER_STEP,
    ORDER_STEP,
    TOKEN_STEP,
    LessonStep,
)
from viz_app.session.pinned import PIN_PREFIX

LESSONS = {lesson.name: lesson for lesson in offered_lessons().lessons}
STEPS = [(name, i) for name, one in LESSONS.items() for i in range(1, len(one.steps) + 1)]


def at(page: str) -> str:
    return "" if page == "attention" else page


def opened(name: str, number: int, said_: str = "", **other: str) -> AppTest:
    """Open a step by its link; as it is after the prediction if one is given."""
    step = LESSONS[name].steps[number - 1]
    query = dict(step.query)
    if said_:
        query |= step.then
        if step.pins:
            pins = ("checkpoint", "source", "target", "text", "edits", "positions")
            query |= {f"{PIN_PREFIX}{key}": step.query[key] for key in pins if key in step.query}
    address = {"lesson": name, "lesson-step": str(number)}
    address |= {"predicted": f"{number}.{said_}"} if said_ else {}
    return app_at(
        at(step.page_when(bool(said_))), **{k: v[-1] for k, v in query.items()} | address | other
    )


def guess(step: LessonStep) -> str:
    kind = step.prediction.kind
    if kind == CHOOSE_STEP:
        return next(iter(step.prediction.options))
    return {
        NUMBER_STEP: "7",
        TOKEN_STEP: "0",
        ORDER_STEP: "3-2-1-0",
        CELLS_STEP: "-".join(["10000"] * 5),
    }[kind]


@pytest.mark.parametrize(("name", "number"), STEPS)
def test_a_step_asks_and_then_tells_of_the_run(name: str, number: int) -> None:
    step = LESSONS[name].steps[number - 1]
    asked = said(opened(name, number), "lesson")
    assert asked["question"] == step.question
    assert asked["asks"]["kind"] == step.prediction.kind
    assert asked["told"] is None
    assert "error" not in asked
    assert asked["away"] is False
    told = said(opened(name, number, guess(step)), "lesson")
    assert "error" not in told, told["error"]
    assert told["asks"] is None
    assert len(told["told"]["reveal"]) == len(step.reveal)
    assert told["told"]["happened"]
    if step.prediction.kind == CHOOSE_STEP:
        assert told["told"]["happened"] in step.prediction.options.values()


def test_another_checkpoint_tells_another_story() -> None:
    told = {
        checkpoint: said(
            opened("6-positions", 1, "yes", **{"checkpoint": checkpoint, "pin.checkpoint": checkpoint}),
            "lesson",
        )["told"]
        for checkpoint in ("eng-fra", "eng-fra-rnn")
    }  # fmt: skip
    for checkpoint, one in told.items():
        scope = models.load(checkpoint)
        for text in ("Tom hit Mary.", "Mary hit Tom."):
            assert f"“{scope.run(text).output}”" in one["reveal"][0]
    assert told["eng-fra"]["reveal"] != told["eng-fra-rnn"]["reveal"]


def test_a_survey_is_told_of_the_weights_on_the_screen_or_said_to_be_missing() -> None:
    shares = set()
    for checkpoint in ("eng-fra", "eng-fra-rnn"):
        told = said(opened("5-one-wrong-word", 4, "7", checkpoint=checkpoint), "lesson")["told"]
        means = models.load(checkpoint).training["surveys"]["recovery"]["means"]
        shares.add(told["happened"])
        assert told["happened"] == f"{100 * means['first recovered']['mean']:.0f} %"
        assert told["reveal"][0].startswith(f"{told['happened']} of 3")
    assert len(shares) == 2
    missing = said(opened("5-one-wrong-word", 4, "7", checkpoint="dates"), "lesson")
    assert missing["told"] is None
    assert "weights of dates have no record of a survey named recovery" in missing["error"]


def test_the_change_without_positions_is_rounding_and_with_them_it_is_not() -> None:
    told = said(opened("6-positions", 3, "0.5"), "lesson")["told"]
    scope = models.load("eng-fra")
    ids = scope.run("Tom hit Mary.").streams["source"].ids
    order = [*reversed(range(len(ids) - 1)), len(ids) - 1]

    def moved(model: Any) -> float:
        def states(row: list[int]) -> Any:
            tokens = torch.tensor([row])
            return model.encode(tokens, model.masks(tokens, tokens[:, :0]))[0]

        plain, turned = states(list(ids)), states([ids[i] for i in order])
        back = turned[torch.tensor(order).argsort()]
        return float(((back - plain).norm(dim=-1) / plain.norm(dim=-1)).max())

    with torch.inference_mode():
        positioned, bare = moved(scope.model), moved(without_positions(scope.model))
    assert bare < 1e-5 < 0.1 < positioned
    assert told["happened"] == f"{positioned:.2f} of its length"
    assert f"by {positioned:.2f} of its length" in told["reveal"][0]
    assert "That is rounding" in told["reveal"][0]


def test_a_lesson_that_is_not_there_is_said() -> None:
    app = app_at("", lesson="no-such-lesson")
    assert "there is no lesson no-such-lesson" in str(said(app, "note address"))
    with pytest.raises(ValueError, match="not enough values"):
        said(app, "lesson")


HOSTILE = {
    "another folder's file": {"lesson": "../../../etc/passwd"},
    "markup": {"lesson": "<script>alert(1)</script>"},
    "a step too far": {"lesson": "6-positions", "lesson-step": "20"},
    "a step that is no number": {"lesson": "6-positions", "lesson-step": "1e9"},
    "an option that is not there": {"lesson": "6-positions", "predicted": "1.perhaps"},
    "a number for an option": {"lesson": "6-positions", "predicted": "1.1e999"},
    "no number": {"lesson": "6-positions", "lesson-step": "3", "predicted": "3.nan"},
    "an infinite number": {"lesson": "6-positions", "lesson-step": "3", "predicted": "3.1e999"},
    "a token that is not there": {"lesson": "2-alignment", "predicted": "1.99"},
    "a token before the first": {"lesson": "2-alignment", "predicted": "1.-1"},
    "an order of too many": {
        "lesson": "7-three-families",
        "lesson-step": "2",
        "predicted": "2.0-1-99",
    },
    "cells of another text": {"lesson": "4-masks", "predicted": "1." + "1" * 300},
    "thousands of predictions": {"lesson": "6-positions", "predicted": "_".join(["1.yes"] * 5000)},
}


@pytest.mark.parametrize("case", HOSTILE)
def test_whatever_stands_in_the_address_the_page_stands(case: str) -> None:
    """What is no lesson, step or prediction is named, and no prediction is made up from it."""
    app = app_at("", **HOSTILE[case])
    assert said(app, "written")
    lessons = [e for e in app.get("bidi_component") if e.proto.id.endswith("-lesson")]
    if not lessons:
        assert "lesson" in str(said(app, "note address"))
        return
    told = said(app, "lesson")
    assert told["asks"] or "error" in told or case == "thousands of predictions"
    assert told["told"] is None or case == "thousands of predictions"


def test_the_page_can_be_left_and_the_step_goes_on() -> None:
    name, step = "6-positions", LESSONS["6-positions"].steps[0]
    query = {key: value[-1] for key, value in step.query.items()}
    app = app_at("decoding", **query, lesson=name, predicted="1.yes")
    assert said(app, "lesson")["away"] is True


def test_the_list_names_every_lesson() -> None:
    files = sorted(path.stem for path in library.SHIPPED_LESSONS.glob("*.md"))
    assert list(LESSONS) == files
    listed = said(app_at("lessons"), "lesson_list")["lessons"]
    assert [one["name"] for one in listed] == list(LESSONS)


def test_an_own_lesson_is_text_and_a_broken_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.LESSONS_VARIABLE, str(tmp_path))
    text = (library.SHIPPED_LESSONS / "6-positions.md").read_text()
    (tmp_path / "mine.md").write_text(text.replace("# Shuffle", "# <img src=x onerror=alert(1)>"))
    (tmp_path / "broken.md").write_text("# Only a title\n")
    app = app_at("lessons")
    assert said(app, "lesson_list")["lessons"][0]["title"].startswith("<img src=x")
    assert "broken.md, line 1: minutes is missing" in str(said(app, "note lessons"))
    assert "<img" not in str([element.value for element in app.markdown])
