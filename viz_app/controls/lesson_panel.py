"""The open lesson beside the page: its step, what is predicted, and what happened in the run."""

from collections.abc import Callable
from functools import partial

from models import InputError
from models.checkpoint import CheckpointError
from viz_app.components.catalogue import LESSON
from viz_app.components.mounting import show
from viz_app.controls import class_panel
from viz_app.controls.step_run import departure_finder
from viz_app.lessons.lesson import Lesson
from viz_app.lessons.library import Library, library
from viz_app.lessons.picture import lesson_picture
from viz_app.session import class_state, lesson_state, live, url_state
from viz_app.session.classes import ClassStatus
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Change, LiveSession, Pictures
from viz_app.session.parameters import declared_parameters

LESSON_KEY, LIST_PAGE = "lesson", "lessons"  # key of the component; address of the list
# pages that a step may open (navigation.PAGES without Lessons)
LESSON_PAGE_NAMES = (
    "attention", "task", "inside", "layer", "positions", "masks", "interventions", "decoding", "compare", "from-rnn", "models",
)  # fmt: skip


def offered_lessons() -> Library:
    """Return the available lessons."""
    return library(LESSON_PAGE_NAMES, declared_parameters())


def first() -> str:
    """Return the name of the first lesson; "" if there is none."""
    return next((lesson.name for lesson in offered_lessons().lessons), "")


def follow_class(session: LiveSession) -> ClassStatus | None:
    """Return the session's class, if any, and open its step if the class has moved on."""
    status = class_state.class_status(session)
    if status is None or status.stage == session.member.stage:
        return status
    lesson = offered_lessons().named(status.lesson)
    if lesson is None or status.step > len(lesson.steps):
        class_state.leave_class(session, f"Lesson {status.lesson} is no longer available.")
        return None
    session.member.stage = status.stage
    lesson_state.open_in_class(lesson, status.step, session, status.is_released)
    return status


def begin_lesson(name: str) -> None:
    """Open the first step of the lesson of this name, if there is one."""
    if lesson := offered_lessons().named(name):
        lesson_state.begin(lesson, live.live_session())


def open_lesson(status: ClassStatus | None) -> tuple[Lesson, int] | None:
    """Return the open lesson, or the class's, and the number of its step; None outside a lesson."""
    if status:
        url_state.set_value(lesson_state.LESSON_NAME, status.lesson)
        url_state.set_value(lesson_state.LESSON_STEP, status.step)
    name = url_state.get(lesson_state.LESSON_NAME)
    if not name:
        return None
    lesson = offered_lessons().named(name)
    if lesson is None:
        url_state.use_fallback(lesson_state.LESSON_NAME, "", f"there is no lesson {name}")
        return None
    number = url_state.get(lesson_state.LESSON_STEP) or 1
    if number > len(lesson.steps):
        number = 1
        url_state.use_fallback(
            lesson_state.LESSON_STEP, 1, f"lesson-step must be at most {len(lesson.steps)} here"
        )
    url_state.get(lesson_state.PREDICTED)
    return lesson, number


def draw_lesson(
    lesson: Lesson,
    number: int,
    page: str,
    session: LiveSession,
    run: CurrentRun,
    status: ClassStatus | None = None,
) -> Callable[[CurrentRun], Pictures]:
    """Draw the step and its class beside the page; return the function that draws it for a run."""
    if status:
        predictions, in_class = class_panel.part(status, session)
        is_revealed = status.is_released
    else:
        predictions, in_class = lesson_state.predictions(), None
        is_revealed = number in predictions
    step = lesson.steps[number - 1]
    is_here = page == step.page_when(is_revealed)
    beside = partial(_beside, session.beside)
    find_departure = departure_finder(step, is_revealed, session, run, beside(run))

    def pictures(run: CurrentRun) -> Pictures:
        other = beside(run)
        departure = find_departure(run, other)
        picture = lesson_picture(
            lesson, number, predictions, run, other, is_here, in_class, departure
        )
        return {LESSON_KEY: picture if status else picture | _next_button(lesson)}

    handlers = (
        class_panel.handlers(status, lesson, session)
        if status
        else _handlers(lesson, number, session)
    )
    is_asked = find_departure(run, beside(run)) is None
    draw_class = partial(
        class_panel.draw_class, status, lesson, session, run, beside(run), is_here, is_asked
    )
    if in_class and in_class.leads:
        draw_class()
    show(LESSON, pictures(run)[LESSON_KEY], LESSON_KEY, **handlers)
    if in_class and not in_class.leads:
        draw_class()
    return pictures


def _handlers(lesson: Lesson, number: int, session: LiveSession) -> dict[str, Callable]:
    """Return what the component calls outside a class."""
    return {
        "on_predict": lambda prediction: lesson_state.predict(lesson, number, prediction, session),
        "on_step": partial(_open_step, lesson, session),
        "on_leave": lesson_state.leave_lesson,
        "on_next": partial(_open_next, lesson, session),
    }


def _beside(other: Change | None, run: CurrentRun) -> CurrentRun | None:
    """Return the pinned run beside this one, if there is one that can be run."""
    try:
        return other(run) if other else None
    except (InputError, CheckpointError):  # the page says so
        return None


def _following(lesson: Lesson) -> tuple[int, Lesson] | None:
    """Return the lesson after this one, and its number from 1; None after the last."""
    lessons = offered_lessons().lessons
    names = [one.name for one in lessons]
    number = names.index(lesson.name) + 1 if lesson.name in names else len(names)
    return (number + 1, lessons[number]) if number < len(lessons) else None


def _next_button(lesson: Lesson) -> dict[str, str]:
    """Return the label and the title of the button after the last step."""
    if (following := _following(lesson)) is None:
        return {"next": "All lessons", "nextTitle": ""}
    number, after = following
    return {"next": f"Lesson {number} →", "nextTitle": after.title}


def _open_next(lesson: Lesson, session: LiveSession) -> None:
    """Begin the lesson after this one or, after the last, open the list of lessons."""
    if (following := _following(lesson)) is not None:
        lesson_state.begin(following[1], session)
        return
    lesson_state.leave_lesson()
    session.leaves_for = LIST_PAGE


def _open_step(lesson: Lesson, session: LiveSession, number: int) -> None:
    if 1 <= number <= len(lesson.steps):
        lesson_state.open_step(lesson, number, session, number in lesson_state.predictions())
