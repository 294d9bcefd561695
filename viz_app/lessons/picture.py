"""What the component `lesson` shows: the question, then what happened in the run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from viz_app.lessons.form import PredictionForm, form_of, value_of, with_unit, words_of
from viz_app.lessons.lesson import CHOOSE_STEP, NUMBER_STEP, Lesson, LessonStep, Prediction
from viz_app.lessons.readings import finder
from viz_app.lessons.sentence import ReadingValue
from viz_app.session.current_run import CurrentRun

RUN_MOVED = "Choose “Show again”: the run on the screen is another one."
TEACHER_SHOWS = "Your teacher will show what happened."
LED = "Pupils predict now. “Show what happened” shows it to everyone."


@dataclass(frozen=True)
class InClass:
    """The part of someone in a class; `is_released` if the teacher has shown what happened."""

    leads: bool
    is_released: bool
    problem: str = ""  # why the last prediction did not count

    @property
    def name(self) -> str:
        """The part as the component `lesson` knows it."""
        return "teacher" if self.leads else "pupil"


def lesson_picture(
    lesson: Lesson,
    number: int,
    predictions: Mapping[int, str],
    run: CurrentRun,
    pinned: CurrentRun | None,
    is_here: bool,
    in_class: InClass | None = None,
) -> dict[str, Any]:
    """Return the payload of a step.

    What happened is not in it before a prediction, in a class before the teacher shows it.
    `is_here` says that the page is the step's own.
    """
    step, prediction = lesson.steps[number - 1], predictions.get(number)
    picture: dict[str, Any] = {
        "lesson": lesson.title,
        "step": number,
        "made": [i in predictions for i in range(1, len(lesson.steps) + 1)],
        "question": step.question,
        "text": step.text,
        "look": step.looks_at if is_here else "",
        "away": not is_here,
        "part": in_class.name if in_class else "",
        "asks": None,
        "waits": None,
        "told": None,
    }
    try:
        if in_class.is_released if in_class else prediction is not None:
            picture["told"] = _reveal_payload(step, prediction, run, pinned)
        elif in_class and in_class.leads:
            picture["waits"] = {"says": LED}
        elif prediction is not None:
            form = form_of(step.prediction, run)
            picture["waits"] = {
                "said": words_of(form, value_of(form, prediction)),
                "says": TEACHER_SHOWS,
            }
        else:
            picture["asks"] = form_of(step.prediction, run)
    except ValueError as error:
        message = str(error)
        picture["error"] = f"{message[:1].upper()}{message[1:]}. {RUN_MOVED}"
    if in_class and in_class.problem:
        picture["error"] = in_class.problem
    return picture


def _reveal_payload(
    step: LessonStep, prediction: str | None, run: CurrentRun, pinned: CurrentRun | None
) -> dict[str, Any]:
    """Return what was predicted, what happened, and the reveal.

    Raises:
        ValueError: something is not there in this run.
    """
    find = finder(run, pinned)
    happened = step.happened.places[0].value(find)
    payload: dict[str, Any] = {
        "happened": happened_words(step.prediction, happened),
        "reveal": [sentence.words(find) for sentence in step.reveal],
    }
    if prediction is not None:
        form: PredictionForm = form_of(step.prediction, run)
        value = value_of(form, prediction)
        payload["said"] = words_of(form, value)
        payload["agrees"] = None if step.prediction.kind == NUMBER_STEP else value == happened.value
    return payload


def happened_words(prediction: Prediction, happened: ReadingValue) -> str:
    """Return what happened, in the words of the prediction."""
    if prediction.kind == CHOOSE_STEP:
        return prediction.options.get(happened.value, happened.words)
    if prediction.kind == NUMBER_STEP:
        return with_unit(happened.words, prediction.of)
    return happened.words


def comparable(step: LessonStep, run: CurrentRun, pinned: CurrentRun | None) -> Any:
    """Return what happened as a value to compare predictions with, a number in their unit.

    Raises:
        ValueError: something is not there in this run.
    """
    happened = step.happened.places[0].value(finder(run, pinned))
    if step.prediction.kind != NUMBER_STEP:
        return happened.value
    number = re.match(r"-?[0-9.,]+", happened.words)
    return float(number[0].replace(",", "")) if number else None
