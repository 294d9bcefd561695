"""The payload of the component `lesson`: the question, then what happened in the run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from viz_app.lessons.form import form_of, value_of, with_unit, words_of
from viz_app.lessons.lesson import (
    CHOOSE_STEP,
    NUMBER_STEP,
    TOKEN_STEP,
    Lesson,
    LessonStep,
    Prediction,
)
from viz_app.lessons.readings import finder
from viz_app.lessons.readings.registry import numbered, plain_token
from viz_app.lessons.sentence import FindReading, ReadingValue
from viz_app.session.current_run import CurrentRun

RUN_MOVED = "Choose “Show again” to return to this step's run."
TEACHER_SHOWS = "Your teacher will show what happened."
LED = "Pupils predict now. “Show what happened” reveals the result to everyone."


@dataclass(frozen=True)
class Departure:
    """A sentence on how the runs on the screen differ from those that a step is about.

    `keeps_reveal` is True if the assumptions of the reveal are true of them nevertheless.
    """

    says: str
    keeps_reveal: bool


@dataclass(frozen=True)
class InClass:
    """The role of someone in a class; `is_released` if the teacher has shown what happened."""

    leads: bool
    is_released: bool
    problem: str = ""  # why the last prediction did not count

    @property
    def name(self) -> str:
        """The name of the role in the component `lesson`."""
        return "teacher" if self.leads else "pupil"


def lesson_picture(
    lesson: Lesson,
    number: int,
    predictions: Mapping[int, str],
    run: CurrentRun,
    pinned: CurrentRun | None,
    is_here: bool,
    in_class: InClass | None = None,
    departure: Departure | None = None,
) -> dict[str, Any]:
    """Return the payload of a step.

    It does not contain what happened before a prediction, or in a class, before the teacher shows
    it. `is_here` is True if the page is the step's own. A run that departs from the step's is
    described, but there is no prediction for it, and no prediction is compared with it.
    """
    step, prediction = lesson.steps[number - 1], predictions.get(number)
    picture: dict[str, Any] = {
        "lesson": lesson.title,
        "step": number,
        "predicted_steps": [i in predictions for i in range(1, len(lesson.steps) + 1)],
        "question": step.question,
        "text": step.text,
        "look": step.looks_at if is_here else "",
        "is_elsewhere": not is_here,
        "departure": departure.says if departure else "",
        "role": in_class.name if in_class else "",
        "form": None,
        "waiting": None,
        "reveal": None,
    }
    try:
        if in_class.is_released if in_class else prediction is not None:
            if departure is None or departure.keeps_reveal:
                is_step_run = departure is None
                picture["reveal"] = _reveal_payload(step, prediction, run, pinned, is_step_run)
        elif in_class and in_class.leads:
            picture["waiting"] = {"text": LED}
        elif prediction is not None:
            is_named = departure is None or _is_of_any_run(step)
            wording = _value_and_words(step, prediction, run)[1] if is_named else None
            picture["waiting"] = {"prediction": wording, "text": TEACHER_SHOWS}
        elif departure is None:
            picture["form"] = form_of(step.prediction, run)
    except ValueError as error:
        message = str(error)
        picture["error"] = f"{message[:1].upper()}{message[1:]}. {RUN_MOVED}"
        picture["departure"] = ""
    if in_class and in_class.problem:
        picture["error"] = in_class.problem
    return picture


def _is_of_any_run(step: LessonStep) -> bool:
    """Return True if a prediction has the same words in every run."""
    return step.prediction.kind in (CHOOSE_STEP, NUMBER_STEP)


def _value_and_words(step: LessonStep, prediction: str, run: CurrentRun) -> tuple[Any, str]:
    """Return the value of a prediction and its words, in the run that it was made for.

    Raises:
        ValueError: it was made for another run.
    """
    form = form_of(step.prediction, run)
    value = value_of(form, prediction)
    return value, words_of(form, value)


def _reveal_payload(
    step: LessonStep,
    prediction: str | None,
    run: CurrentRun,
    pinned: CurrentRun | None,
    is_step_run: bool,
) -> dict[str, Any]:
    """Return what was predicted, what happened, and the reveal.

    `is_step_run` is True if the prediction is about this run.

    Raises:
        ValueError: something is missing in this run.
    """
    find = finder(run, pinned)
    happened = _outcome(step, find)
    payload: dict[str, Any] = {
        "happened": happened_words(step.prediction, happened, run),
        "paragraphs": [sentence.words(find) for sentence in step.reveal],
    }
    if not is_step_run:
        payload["is_departed"] = True
    if prediction is not None and (is_step_run or _is_of_any_run(step)):
        value, payload["prediction"] = _value_and_words(step, prediction, run)
        is_graded = is_step_run and step.prediction.kind != NUMBER_STEP
        payload["agrees"] = value == happened.value if is_graded else None
    return payload


def _outcome(step: LessonStep, find: FindReading) -> ReadingValue:
    """Return what happened, with a value to compare predictions with.

    Raises:
        ValueError: something is missing in the runs, or is nothing that could be predicted.
    """
    happened, prediction = step.happened.places[0].value(find), step.prediction
    if prediction.kind == CHOOSE_STEP:
        return replace(happened, value=str(happened.value))  # the key of an option is a text
    if prediction.kind == TOKEN_STEP and happened.stream != prediction.of:
        raise ValueError(
            f"what happened is a token of the {happened.stream}, not of the {prediction.of[:40]}"
        )
    is_number = isinstance(happened.value, int | float) and not happened.stream
    if prediction.kind == NUMBER_STEP and not is_number:
        raise ValueError("what happened is no number")
    return happened


def happened_words(prediction: Prediction, happened: ReadingValue, run: CurrentRun) -> str:
    """Return what happened in a run, in the words of the prediction."""
    if prediction.kind == CHOOSE_STEP:
        return prediction.options.get(happened.value, happened.words)
    if prediction.kind == NUMBER_STEP:
        return with_unit(happened.words, prediction.of)
    if prediction.kind == TOKEN_STEP and (stream := run.trace.streams.get(prediction.of)):
        tokens = [plain_token(token) for token in stream.tokens]
        if tokens[happened.value : happened.value + 1] == [happened.words]:
            return numbered(tokens)[happened.value]
    return happened.words


def comparable(step: LessonStep, run: CurrentRun, pinned: CurrentRun | None) -> Any:
    """Return what happened as a value to compare predictions with, a number in their unit.

    Raises:
        ValueError: something is missing in this run.
    """
    happened = _outcome(step, finder(run, pinned))
    if step.prediction.kind != NUMBER_STEP:
        return happened.value
    number = re.match(r"[-+]?[0-9.,]+(?:e-?[0-9]+)?", happened.words)
    return float(number[0].replace(",", "")) if number else None
