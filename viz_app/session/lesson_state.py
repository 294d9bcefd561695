"""The open lesson, its step and prediction in the URL, and how a step opens its address."""

import re

from viz_app.lessons.form import MAX_PREDICTION
from viz_app.lessons.lesson import MAX_LESSON_STEPS, Lesson, LessonStep
from viz_app.session import pinned, run_changes, url_state
from viz_app.session.live import LiveSession
from viz_app.session.parameters import Notation, Text, Whole, declared_parameters

LESSON_NAME = Text(
    "lesson",
    is_step=True,
    pattern=r"[\w-]{0,60}",
    form="a name of at most 60 letters, digits, _ and -",
)
LESSON_STEP = Whole("lesson-step", 1, is_step=True, low=1, high=MAX_LESSON_STEPS)
# belong to the session, not to what a page shows
LESSON_KEYS = ("lesson", "lesson-step", "predicted", "present", "class")

Predictions = tuple[tuple[int, str], ...]  # (number of the step, the prediction)


def _read(text: str) -> Predictions:
    parts = (
        re.fullmatch(rf"([0-9]{{1,2}})\.([a-z0-9.-]{{1,{MAX_PREDICTION}}})", p)
        for p in text.split("_")
    )
    predictions = {
        int(part[1]): part[2] for part in parts if part and 1 <= int(part[1]) <= MAX_LESSON_STEPS
    }
    return tuple(sorted(predictions.items()))


def _write(predictions: Predictions) -> str:
    return "_".join(f"{number}.{prediction}" for number, prediction in predictions)


PREDICTED = Notation("predicted", (), True, read=_read, write=_write)


def predictions() -> dict[int, str]:
    """Return the predictions by the number of their step."""
    return dict(url_state.get(PREDICTED))


def begin(lesson: Lesson, session: LiveSession) -> None:
    """Open the first step of a lesson, with nothing predicted."""
    url_state.set_value(LESSON_NAME, lesson.name)
    url_state.set_value(PREDICTED, ())
    open_step(lesson, 1, session, False)


def open_in_class(lesson: Lesson, number: int, session: LiveSession, is_released: bool) -> None:
    """Open the step that a class is at; predictions are kept there and not in the address."""
    url_state.set_value(LESSON_NAME, lesson.name)
    url_state.set_value(PREDICTED, ())
    open_step(lesson, number, session, is_released)


def leave_lesson() -> None:
    """End the lesson; the page stays as it is."""
    for parameter in (LESSON_NAME, LESSON_STEP, PREDICTED):
        url_state.set_value(parameter, parameter.default)


def open_step(lesson: Lesson, number: int, session: LiveSession, is_changed: bool) -> None:
    """Open the address of a step at the next rerun, as it is after a prediction if `is_changed`."""
    step = lesson.steps[number - 1]
    url_state.set_value(LESSON_STEP, number)
    query = step.query_when(is_changed)
    run_changes.force_anew()
    for name, parameter in declared_parameters().items():
        if name in query:
            url_state.set_value(parameter, parameter.from_url(list(query[name])))
        elif name not in LESSON_KEYS:
            url_state.set_value(parameter, parameter.default)
    if is_changed and step.pins:
        pinned.pin_address(step.query)
        if not changes_texts(step):
            pinned.follow_texts(url_state.shipped_text_fields())
    session.texts_are_set = True
    session.leaves_for = step.page_when(is_changed)


def changes_texts(step: LessonStep) -> bool:
    """Return True if a step reads other texts after the prediction than before it."""
    names = [parameter.name for parameter in url_state.shipped_text_fields()]
    return any(name in step.then and step.then[name] != step.query.get(name) for name in names)


def predict(lesson: Lesson, number: int, prediction: str, session: LiveSession) -> None:
    """Commit to a prediction, and change what the step changes."""
    if not _read(_write(((number, prediction),))):
        return
    updated = predictions() | {number: prediction}
    url_state.set_value(PREDICTED, tuple(sorted(updated.items())))
    open_step(lesson, number, session, True)
