"""Typing and clicks take effect even if Streamlit ends the callbacks of their request."""

import ast
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread, current_thread
from types import SimpleNamespace

import pytest
import streamlit as st
from streamlit.runtime.fragment import MemoryFragmentStorage
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner import RerunData, RerunException, add_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_run_context import (
    SCRIPT_RUN_CONTEXT_ATTR_NAME,
    ScriptRunContext,
    ThreadState,
)
from streamlit.runtime.state import SafeSessionState, SessionState

import viz_app
from viz_app.components.catalogue import PLAYER
from viz_app.components.mounting import _handle
from viz_app.session import url_state
from viz_app.session.actions import MAX_ACTIONS, Actions
from viz_app.session.live import noted
from viz_app.session.parameters import Text

WORD = Text("word", default="before")


class Interrupted:
    """A session whose next request comes as soon as `asked`: the script's own thread ends at the next access."""

    def __init__(self) -> None:
        self.asked = False
        self.script = current_thread()
        self.state, self.actions = SessionState(), Actions()
        self.safe = SafeSessionState(self.state, self._look)

    def _look(self) -> None:
        if self.asked and current_thread() is self.script:
            raise RerunException(RerunData())

    @contextmanager
    def next_request(self) -> Iterator[None]:
        self.asked = True
        yield
        self.asked = False


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Interrupted:
    session = Interrupted()
    context = ScriptRunContext(
        session_id="one",
        _enqueue=lambda message: None,
        query_string="",
        session_state=session.safe,
        uploaded_file_mgr=MemoryUploadedFileManager(""),
        main_script_path="",
        user_info={},
        fragment_storage=MemoryFragmentStorage(),
        pages_manager=PagesManager(""),
    )
    monkeypatch.setattr(current_thread(), SCRIPT_RUN_CONTEXT_ATTR_NAME, context, raising=False)
    ThreadState.initialize()
    session.state["live session"] = SimpleNamespace(actions=session.actions)
    return session


def test_a_callback_that_asks_for_the_session_is_ended_by_the_next_request(
    session: Interrupted,
) -> None:
    """This is why callbacks only note what to do: acting at once, they would lose what was typed."""
    with session.next_request(), pytest.raises(RerunException):
        url_state.set_value(WORD, "typed")
    assert url_state.get(WORD) == "before"


def test_noted_actions_are_carried_out_by_the_next_run_whatever_comes_meanwhile(
    session: Interrupted,
) -> None:
    callback = noted(url_state.set_value)
    with session.next_request():
        callback(WORD, "typed")
        session.actions.carry_out()
    assert url_state.get(WORD) == "typed"


def test_a_value_is_kept_although_its_widget_has_left_the_page_meanwhile(
    session: Interrupted,
) -> None:
    callback = url_state.bound(WORD, "before")["on_change"]
    st.session_state["word"] = "typed"
    with session.next_request():
        callback()
    del st.session_state["word"]  # as Streamlit does when another page has been drawn
    session.actions.carry_out()
    assert url_state.get(WORD) == "typed"


def test_an_event_of_a_component_is_read_although_the_next_request_has_come(
    session: Interrupted,
) -> None:
    (name, event), *_ = PLAYER.events.items()
    steps: list[int] = []
    st.session_state["player"] = {event.trigger: 7}
    with session.next_request():
        _handle(session.actions, PLAYER, "player", event.trigger, {name: steps.append})
        assert not steps
        session.actions.carry_out()
    assert steps == [7]


def test_actions_are_carried_out_once_and_in_order_and_their_errors_are_raised(
    session: Interrupted,
) -> None:
    actions, done = Actions(), []
    actions.note(lambda: done.append(1))
    actions.note(lambda: 1 / 0)  # type: ignore[arg-type]
    actions.note(lambda: done.append(2))
    with pytest.raises(ZeroDivisionError):
        actions.carry_out()
    actions.carry_out()
    actions.carry_out()
    assert done == [1, 2]


def test_two_runs_that_overlap_carry_out_each_action_once_and_in_order(
    session: Interrupted,
) -> None:
    """The previous run may still be carrying them out when the next begins."""
    actions, done, begun = Actions(), [], Event()

    def first() -> None:
        begun.set()
        time.sleep(0.2)
        done.append(1)

    actions.note(first)
    actions.note(lambda: done.append(2))
    before = Thread(target=actions.carry_out)
    add_script_run_ctx(before)
    before.start()
    begun.wait()
    actions.carry_out()
    before.join()
    assert done == [1, 2]


def test_actions_that_are_never_carried_out_do_not_pile_up(session: Interrupted) -> None:
    actions, done = Actions(), []
    for i in range(3 * MAX_ACTIONS):
        actions.note(partial(done.append, i))
    actions.carry_out()
    assert done == list(range(2 * MAX_ACTIONS, 3 * MAX_ACTIONS))


def test_every_callback_of_the_app_is_noted() -> None:
    """A callback given to Streamlit is `noted(…)`, or comes from `url_state.bound`, which notes it."""
    for path in Path(viz_app.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(call, ast.Call):
                for keyword in call.keywords:
                    if keyword.arg in ("on_click", "on_change"):
                        assert "noted" in ast.unparse(keyword.value), (path, call.lineno)


def test_every_part_that_reruns_by_itself_carries_out_what_is_noted() -> None:
    """A fragment of Streamlit is the page itself, or drawn by `redraw_alone`."""
    users = [
        path.name
        for path in Path(viz_app.__file__).parent.rglob("*.py")
        for _ in range(path.read_text("utf-8").count("st.fragment"))
    ]
    assert sorted(users) == ["navigation.py", "ui.py"]
