"""The class beside the page: its code and its predictions, which pupils see once revealed."""

import os
from collections.abc import Callable
from functools import partial

import streamlit as st

from viz_app import workers
from viz_app.components.catalogue import CLASSROOM
from viz_app.components.mounting import show
from viz_app.host_guard import EVERYWHERE
from viz_app.lessons.form import form_of
from viz_app.lessons.lesson import Lesson
from viz_app.lessons.picture import InClass, comparable
from viz_app.session import class_route, class_state, lesson_state, live, routes
from viz_app.session.classes import ClassStatus, open_classes, spaced_code
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import LiveSession


def part(status: ClassStatus, session: LiveSession) -> tuple[dict[int, str], InClass]:
    """Return the pupil's predictions by the number of their step, and their role in the class."""
    member = session.member
    problem, member.problem = member.problem, ""
    in_class = InClass(class_state.leads_class(session), status.is_released, problem)
    return open_classes().predictions(status.code, member.person), in_class


def draw_class(
    status: ClassStatus,
    lesson: Lesson,
    session: LiveSession,
    run: CurrentRun,
    pinned: CurrentRun | None,
    is_here: bool,
    is_asked: bool,
) -> None:
    """Draw the class; the teacher's page sets the form of a step's predictions.

    `is_asked` is True if the run is the one that the step is about; no other is compared with the
    predictions.
    """
    member, step = session.member, lesson.steps[status.step - 1]
    leads = class_state.leads_class(session)
    try:
        if status.is_released:
            happened = comparable(step, run, pinned) if is_asked else None
            member.happened[status.step] = happened
        elif leads and is_here and is_asked:
            form = form_of(step.prediction, run)
            open_classes().set_form(status.code, member.person, status.step, form)
    except ValueError as error:
        member.problem = str(error)
    update = class_state.class_update(session)
    picture = {
        "leads": leads,
        "code": spaced_code(status.code),
        "join": f"{routes.under_base('lessons')}?{class_state.CLASS.name}={status.code}",
        "host": _host(),
        "stage": status.stage,
        "is_released": status.is_released,
        "is_last": status.step == len(lesson.steps),
        "token": session.token,
        "path": class_route.class_path() if live.served.is_set() else "",
        "table": class_route.table_path(),
        "version": class_state.version(update),
        "news": update,
    }
    act = partial(_act, session)
    show(
        CLASSROOM,
        picture,
        on_release=lambda: act(lambda: open_classes().release(status.code, member.person)),
        on_next=lambda: move_class(status, lesson, session, status.step + 1),
        on_end=lambda: act(lambda: open_classes().end(status.code, member.person)),
        on_moved=lambda: None,  # the rerun follows the class
    )


def handlers(status: ClassStatus, lesson: Lesson, session: LiveSession) -> dict[str, Callable]:
    """Return the event handlers of the lesson in a class."""
    step, person = lesson.steps[status.step - 1], session.member.person

    def vote(prediction: str) -> None:
        form = form_of(step.prediction, session.shown)
        open_classes().vote(status.code, person, status.step, form, prediction)

    return {
        "on_predict": lambda answer: _act(session, lambda: vote(answer)),
        "on_step": partial(move_class, status, lesson, session),
        "on_leave": partial(class_state.leave_class, session),
        "on_next": lambda: None,  # not offered: the teacher begins the next lesson
    }


def move_class(status: ClassStatus, lesson: Lesson, session: LiveSession, number: int) -> None:
    """Move the class to a step, as its teacher, or show its current step again."""
    if number == status.step:
        lesson_state.open_in_class(lesson, number, session, status.is_released)
    elif 1 <= number <= len(lesson.steps):
        _act(
            session,
            lambda: open_classes().open_step(status.code, session.member.person, number),
        )


def _act(session: LiveSession, act: Callable[[], None]) -> None:
    """Act in the class; an error is shown beside the step."""
    try:
        act()
    except ValueError as error:
        session.member.problem = str(error)


def _host() -> str:
    """Return the address that a shared app listens on, if that is one address."""
    address = os.environ.get(workers.ADDRESS) or st.get_option("server.address") or ""
    return "" if address in EVERYWHERE else address
