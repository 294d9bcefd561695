"""The open lesson beside the page: its step, what is predicted, and what happened in the run."""

from collections.abc import Callable
from functools import partial

from models import InputError
from models.checkpoint import CheckpointError
from viz_app.components.catalogue import LESSON
from viz_app.components.mounting import show
from viz_app.lessons.lesson import Lesson
from viz_app.lessons.library import Library, library
from viz_app.lessons.picture import lesson_picture
from viz_app.session import lesson_state, live, url_state
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import LiveSession, Pictures
from viz_app.session.parameters import declared

KEY = "lesson"
# pages that a step may open (navigation.PAGES without Lessons)
PAGES = (
    "attention", "task", "inside", "layer", "positions", "masks", "interventions", "decoding", "compare", "from-rnn", "models",
)  # fmt: skip


def offered() -> Library:
    """Return the lessons on offer."""
    return library(PAGES, declared())


def first() -> str:
    """Return the name of the first lesson; "" if there is none."""
    return next((lesson.name for lesson in offered().lessons), "")


def begin_lesson(name: str) -> None:
    """Open the first step of this lesson, if there is one of the name."""
    if lesson := offered().named(name):
        lesson_state.begin(lesson, live.session())


def open_lesson() -> tuple[Lesson, int] | None:
    """Return the open lesson and the number of its step; None outside a lesson."""
    name = url_state.get(lesson_state.LESSON)
    if not name:
        return None
    lesson = offered().named(name)
    if lesson is None:
        url_state.stand_in(lesson_state.LESSON, "", f"there is no lesson {name}")
        return None
    number = url_state.get(lesson_state.LESSON_STEP) or 1
    if number > len(lesson.steps):
        number = 1
        url_state.stand_in(
            lesson_state.LESSON_STEP, 1, f"lesson-step must be at most {len(lesson.steps)} here"
        )
    url_state.get(lesson_state.PREDICTED)
    return lesson, number


def draw(
    lesson: Lesson, number: int, page: str, session: LiveSession, run: CurrentRun
) -> Callable[[CurrentRun], Pictures]:
    """Draw the step beside this page; return how its picture is made of another run."""
    predictions, other = lesson_state.predictions(), session.beside
    is_here = page == lesson.steps[number - 1].page_when(number in predictions)

    def pictures(run: CurrentRun) -> Pictures:
        try:
            beside = other(run) if other else None
        except (InputError, CheckpointError):  # the page says so
            beside = None
        return {KEY: lesson_picture(lesson, number, predictions, run, beside, is_here)}

    show(
        LESSON,
        pictures(run)[KEY],
        KEY,
        on_predict=lambda said: lesson_state.predict(lesson, number, said, session),
        on_step=partial(_go, lesson, session),
        on_leave=lesson_state.leave,
    )
    return pictures


def _go(lesson: Lesson, session: LiveSession, number: int) -> None:
    if 1 <= number <= len(lesson.steps):
        lesson_state.open_step(lesson, number, session)
