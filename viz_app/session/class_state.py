"""The class that a session is in: joining it, following the teacher, and what each may see of it.

The code is in the URL. The identity of a person is not: it is a random text in a cookie that the
browser keeps until it is closed, so that a reloaded page belongs to the same pupil or teacher.
"""

import re
import secrets
import time
from typing import Any

import streamlit as st

from viz_app.lessons.form import PredictionForm
from viz_app.lessons.histogram import histogram
from viz_app.session import url_state
from viz_app.session.classes import CODE_DIGITS, ClassError, ClassStatus, open_classes
from viz_app.session.live import LiveSession
from viz_app.session.parameters import Text

CLASS = Text(
    "class", pattern=rf"[0-9]{{0,{CODE_DIGITS}}}", form=f"a code of at most {CODE_DIGITS} digits"
)
PERSON_COOKIE = "attnscope_person"
MAX_WRONG_CODES, WRONG_CODE_SECONDS = (
    10,
    60.0,
)  # wrong codes that a session may try in this many seconds
ENDED = "The class has ended. The lesson stays open."
UNKNOWN_CLASS = "There is no class {}. Ask your teacher for the code."
TOO_MANY = "Too many wrong codes. Try again in a minute."
_PERSON = re.compile(r"[\w-]{22}")


def person(session: LiveSession) -> str:
    """Return the person of this session: that of the browser's cookie, or a new one."""
    if not session.member.person:
        cookie = str(st.context.cookies.get(PERSON_COOKIE, ""))
        session.member.person = cookie if _PERSON.fullmatch(cookie) else secrets.token_urlsafe(16)
    return session.member.person


def start(lesson: str, session: LiveSession) -> None:
    """Start a class, which this session leads."""
    try:
        url_state.set_value(CLASS, open_classes().start(person(session), lesson))
    except ClassError as error:
        session.member.note = str(error)


def enter_class(code: str) -> None:
    """Join the class of a code, which may be typed with spaces."""
    url_state.set_value(CLASS, re.sub(r"[^0-9]", "", code)[:CODE_DIGITS])


def leave_class(session: LiveSession, why: str = "") -> None:
    """Leave the class; the lesson stays open."""
    url_state.set_value(CLASS, "")
    session.member.code, session.member.note = "", why


def class_status(session: LiveSession) -> ClassStatus | None:
    """Return the class that this session is in, and join it if it is new; None outside a class.

    A class that has ended or does not exist is left, with a note.
    """
    code = url_state.get(CLASS)
    if not code:
        session.member.code = ""
        return None
    is_new = code != session.member.code
    if is_new and not _may_try(session):
        leave_class(session, TOO_MANY)
        return None
    status = open_classes().status(code)
    if status is None:
        if is_new:
            session.member.wrong_codes.append(time.monotonic())
        leave_class(session, UNKNOWN_CLASS.format(code) if is_new else ENDED)
        return None
    if is_new:
        try:
            open_classes().join(code, person(session))
        except ClassError as error:
            leave_class(session, str(error))
            return None
        session.member.code, session.member.stage, session.member.happened = code, "", {}
    return status


def _may_try(session: LiveSession) -> bool:
    recent = [at for at in session.member.wrong_codes if time.monotonic() - at < WRONG_CODE_SECONDS]
    session.member.wrong_codes[:] = recent
    return len(recent) < MAX_WRONG_CODES


def leads_class(session: LiveSession) -> bool:
    """Return True if this session's person leads its class."""
    return open_classes().is_led_by(session.member.code, session.member.person)


def class_update(session: LiveSession) -> dict[str, Any] | None:
    """Return what this session may see of its class now; None outside a class or after its end.

    Only the teacher sees predictions before the reveal is shown.
    """
    code = session.member.code
    status = open_classes().status(code) if code else None
    if status is None:
        return None
    update: dict[str, Any] = {"stage": status.stage}
    if status.is_released or leads_class(session):
        votes = open_classes().votes(code, status.step)
        update |= {"pupils": open_classes().pupils(code), "votes": sum(n for _, n in votes)}
        form: PredictionForm | None = open_classes().form(code, status.step)
        if form is not None:
            happened = session.member.happened.get(status.step) if status.is_released else None
            update["histogram"] = histogram(form, votes, happened)
    return update


def version(update: dict[str, Any] | None) -> str:
    """Return a short text that changes whenever the update does."""
    if update is None:
        return "ended"
    return ".".join(str(update.get(name, "")) for name in ("stage", "pupils", "votes"))
