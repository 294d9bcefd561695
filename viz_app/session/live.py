"""Live updates while typing: pictures are redrawn at every keystroke and sent over a socket.

A Streamlit rerun costs several times as much as the model's run. So a page registers the function
that draws its pictures: the rerun uses it when typing pauses, and the socket uses it for every
keystroke. Every message carries the number of the text edit and of the rerun it belongs to, so that
the browser never replaces a newer picture by an older one, whichever path they take
(components/common/live.js).
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import streamlit as st

from models import Scope
from models.field_file import FieldFile
from viz_app import workers
from viz_app.drawing.payload import pack
from viz_app.drawing.screen import WINDOW_COOKIE, window_size
from viz_app.session import cache
from viz_app.session.actions import Actions
from viz_app.session.current_run import CurrentRun
from viz_app.session.lanes import TypedTexts
from viz_app.session.opening import Opening
from viz_app.trainers.own_data import OwnData

Pictures = dict[str, bytes | dict]  # key of a component → its payload
Change = Callable[[CurrentRun], CurrentRun]

# ms without a keystroke before Streamlit reruns; leaving the box reruns at once
TYPING_PAUSE_MS = 1500
SESSION_KEY = "live session"  # in st.session_state


def unchanged(original: CurrentRun) -> CurrentRun:
    """Return the run of the unchanged model."""
    return original


@dataclass
class Member:
    """Someone in a class, the teacher or a pupil; `code` is "" outside a class."""

    person: str = ""  # a random text that identifies the person (class_state.py)
    code: str = ""
    stage: str = ""  # of the class, which the page shows
    note: str = ""  # a message about a class that the session is not in
    problem: str = ""  # why the last prediction did not count
    happened: dict[int, Any] = field(
        default_factory=dict
    )  # what was revealed in the class, by the number of a step
    wrong_codes: list[float] = field(default_factory=list)  # when they were tried


class LiveSession:
    """The part of a session that the socket needs."""

    def __init__(self) -> None:
        self.token = workers.new_token()  # authorises requests for this session
        self._run: CurrentRun | None = None
        self._aside: tuple[Scope, tuple[Any, ...], bool] | None = None  # scope, fields, stale
        self.change: Change = unchanged  # applies the page's changes to a run of this model
        self.beside: Change | None = None  # returns the pinned run to show beside a run
        self.view: object = None  # the current page
        self.texts_are_set = False  # by a step of a lesson; kept when its model opens
        self.leaves_for = ""  # address of the page that the next rerun opens
        self.name = ""  # of the requested checkpoint
        self.picked = ""  # menu name of the current checkpoint
        self.opening: Opening | None = None  # of the requested checkpoint
        self.pinned_opening: Opening | None = None  # of the pinned run's model
        # what made the pictures of a pinned run whose text is fixed, and those pictures
        self.pinned_pictures: tuple[object, dict[str, Any]] | None = None
        self.scope: Scope | None = None  # None while it does not open
        # choices for the model's fields that are not typed (url_state.chosen)
        self.chosen: tuple[Any, ...] = ()
        # as last reported by the browser, on opening or on a resize
        self.window = window_size(st.context.cookies.get(WINDOW_COOKIE, ""))
        self.actions = Actions()  # clicks and choices that have not been carried out
        self.member = Member()  # of a class
        self.own_data: OwnData | None = None  # data that its runs may be trained on
        self.files: dict[str, FieldFile] = {}  # by what refers to them (own_files.py)
        self.edition = (0, 0)  # (edit, rerun) that the current rerun draws
        # the number of the last complete rerun, and its page's answer
        self._answer: tuple[int, Callable[..., Pictures] | None] = (0, None)
        self._written: deque[tuple[int, ...]] = deque(maxlen=24)  # by the model of `run`
        self._latest: tuple[int, TypedTexts | None] = (0, None)
        self._numbers: dict[TypedTexts, int] = {}  # of the edits newer than the last rerun
        self._lock = threading.Lock()

    @property
    def run(self) -> CurrentRun | None:
        """The last run of the unchanged model that could be shown, recomputed if put aside."""
        with self._lock:
            run, aside = self._run, self._aside
        if run is None and aside is not None:
            scope, values, stale = aside
            run = CurrentRun(scope, cache.given_trace(scope, *values), stale)  # not under the lock
            with self._lock:
                if self._aside is aside:  # no other run was shown in the meantime
                    self.run = run
                run = self._run or run
        return run

    @run.setter
    def run(self, run: CurrentRun | None) -> None:
        self._run, self._aside = run, None

    def put_aside(self) -> None:
        """Release the run and the pinned pictures until they are next needed.

        They may be large, and no browser is connected.
        """
        with self._lock:
            if run := self._run:
                self._aside = run.scope, tuple(run.trace.fields.values()), run.stale
                self._run = None
            self.pinned_pictures = None

    @property
    def answer(self) -> Callable[..., Pictures] | None:
        """The function that draws all pictures of the page for new texts; None if there is none."""
        return self._answer[1]

    @answer.setter
    def answer(self, answer: Callable[..., Pictures] | None) -> None:
        self._answer = self.edition[1], answer

    @property
    def shown(self) -> CurrentRun:
        """The last run, with the session's changes."""
        return self.change(self.run)

    @property
    def is_open(self) -> bool:
        """True if every keystroke is answered over the socket."""
        return served.is_set() and self.answer is not None

    @property
    def pause(self) -> int:
        """The ms without a keystroke before Streamlit reruns; 0 where only a rerun can answer."""
        return TYPING_PAUSE_MS if self.is_open and self.run.scope is self.scope else 0

    def show(self, run: CurrentRun) -> None:
        """Make this the shown run, unless the session has changed its model in the meantime."""
        model = run.scope.model
        target_ids = run.trace.streams[model.writes].ids[1:] if model.can_write else ()
        with self._lock:
            if run.scope is not self.scope:
                return
            last = self._run.scope if self._run else self._aside and self._aside[0]
            if last is not run.scope:
                self._written.clear()
                self.change = unchanged
            if target_ids and not run.trace.teacher_forced and target_ids not in self._written:
                self._written.append(target_ids)
            self.run = run

    def keep_last(self) -> CurrentRun | None:
        """Keep showing the last run, marked as stale; None if there is none."""
        run = self.run
        with self._lock:
            if run := self._run or run:
                self.run = run = replace(run, stale=True)
        return run

    def draft_tokens(self, scope: Scope) -> tuple[tuple[int, ...], ...]:
        """Return recent outputs of this model, likely to be generated again.

        They are the draft tokens of models.decoding.generate.
        """
        run = self.run
        with self._lock:
            return tuple(self._written) if run and run.scope is scope else ()

    def begin(self) -> None:
        """Begin a rerun, whose pictures are newer than all before it."""
        self.edition = self.edition[0], self.edition[1] + 1

    def resize(self, size: str) -> None:
        """Note how large the visitor's window is."""
        self.window = window_size(size)

    def redraw(self, *texts: str) -> None:
        """Use these texts, typed or set by the app, for the rest of the rerun."""
        with self._lock:
            number = self._numbers[texts] if texts in self._numbers else self._number(texts)
            self._numbers = {t: n for t, n in self._numbers.items() if n >= number}
            self.edition = number, self.edition[1]

    def edit(self, *texts: str) -> bytes | None:
        """Return the browser message for new texts; None if the page has no pictures to give."""
        rerun, answer = self._answer
        if answer is None:
            return None
        with self._lock:
            number = self._number(texts)
        pictures = answer(*texts)
        plain = {key: data for key, data in pictures.items() if isinstance(data, dict)}
        packed = {
            key: np.frombuffer(data, np.uint8)
            for key, data in pictures.items()
            if isinstance(data, bytes)
        }
        return pack({"edition": (number, rerun), "plain": plain}, **packed)

    def _number(self, texts: TypedTexts) -> int:
        if self._latest[1] != texts:
            self._latest = self._latest[0] + 1, texts
        self._numbers[texts] = self._latest[0]
        return self._latest[0]


served = threading.Event()  # set once the app runs in its own server, which has the routes
_sessions: WeakValueDictionary[str, LiveSession] = (
    WeakValueDictionary()
)  # sessions keep theirs alive


def live_session() -> LiveSession:
    """Return this browser session's LiveSession, created on first use."""
    if SESSION_KEY not in st.session_state:
        created = LiveSession()
        st.session_state[SESSION_KEY] = _sessions[created.token] = created
    return st.session_state[SESSION_KEY]


def noted(callback: Callable[..., None]) -> Callable[..., None]:
    """Return a widget's callback that has this one called when the next run begins."""
    actions = live_session().actions
    return lambda *args: actions.note(partial(callback, *args))


def noted_value(key: str, take: Callable[..., None]) -> Callable[..., None]:
    """Return a widget's callback that has `take` called with its value when the next run begins.

    The value is read at once: by then the widget may have left the page, and its value with it.
    """
    actions = live_session().actions

    def note(*args: Any) -> None:
        # read as a whole: asking for one value may end this callback (session/actions.py)
        state = st.session_state.to_dict()
        if key in state:
            actions.note(partial(take, state[key], *args))

    return note


def by_token(token: str) -> LiveSession | None:
    """Return the session that has this token."""
    return _sessions.get(token)
