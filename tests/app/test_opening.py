"""A model that takes long to open: the page meanwhile, its progress, the button that cancels it, and two sessions that ask for
the same model. Every loader here continues when the test says so."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from pathlib import Path

import numpy as np
import pytest
from app_parts import (
    PATIENCE,
    app_at,
    component,
    in_session,
    pick_model,
    picker,
    picture,
    prose,
    said,
)
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext
from streamlit.testing.v1 import AppTest

import models
import viz_app
from models import CheckpointError, Scope, loading
from viz_app import checkpoints
from viz_app.controls.lesson_panel import offered_lessons
from viz_app.input_bar import opening_bar
from viz_app.lessons import library
from viz_app.session import cache, lesson_state, opening, opening_route
from viz_app.session.byte_cache import MEGABYTE, ByteCache
from viz_app.session.cache import store
from viz_app.session.current_run import CurrentRun
from viz_app.session.opening import Opening

APP = Path(viz_app.__file__).with_name("app.py")
DATE = "3 May 1999"


class Slow:
    """A loader that opens `name` only as far as the test allows, and everything else at once."""

    def __init__(self, name: str) -> None:
        self.name, self.begun, self.at, self.free = (
            name,
            threading.Event(),
            threading.Event(),
            threading.Event(),
        )
        self.calls, self.ended, self.fails = 0, threading.Event(), ""

    def __call__(self, name: str, own: Callable[[str], Scope] = checkpoints.open_found) -> Scope:
        if name != self.name:
            return own(name)
        self.calls += 1
        self.begun.set()
        try:
            loading.report_progress(loading.PLACED, 3, 12)
            self.at.set()
            assert self.free.wait(60)
            loading.report_progress(loading.PLACED, 4, 12)
            if self.fails:
                raise CheckpointError(self.fails)
            return own(name)
        finally:
            self.ended.set()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    made = Slow("dates-bahdanau")
    monkeypatch.setattr(store, "cache_store", ByteCache(512 * MEGABYTE))
    monkeypatch.setattr(checkpoints, "open_found", made)
    yield made
    made.free.set()
    wait([each.future for each in opening._under_way.values()], 60)  # else the next test joins it
    opening.try_again()


def app_on(name: str) -> AppTest:
    return app_at(checkpoint=name, source=DATE)


def pick(app: AppTest, slow: Slow, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    """Pick the slow model, and return the page before it has opened."""
    monkeypatch.setattr(opening, "BAR_DELAY", 0)
    pick_model(app, slow.name)
    assert slow.at.wait(60)
    app.run()
    assert not app.exception
    return app


def bar(app: AppTest) -> list[tuple[float, str]]:
    parts = [part.proto for part in app.get("bidi_component")]
    shown = [json.loads(part.json) for part in parts if part.id.endswith("-opening progress")]
    return [(one["share"], one["progress"]) for one in shown]


def head(app: AppTest) -> tuple[str, np.ndarray]:
    header, arrays = picture(app, "head")
    return header["about"], arrays["weights"]


def finished(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    """Return the page once nothing is being opened any more."""
    monkeypatch.setattr(opening, "BAR_DELAY", 600)
    for each in list(opening._under_way.values()):
        assert each.ready(60)
    return app.run()


def test_each_run_sets_the_choices_of_the_address_until_the_model_is_open(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser sees only the last of several quick runs; it would take the first model of the menu for the chosen one."""
    monkeypatch.setattr(opening, "BAR_DELAY", 0)
    app = app_on(slow.name)
    assert slow.at.wait(60)
    for _ in range(2):
        assert picker(app)["value"] == slow.name
        app.run()
    slow.free.set()
    finished(app, monkeypatch)
    text = app.text_area(key="source").proto
    assert picker(app)["value"] == slow.name
    assert (text.set_value, text.value) == (True, DATE)
    app.run()
    assert not app.text_area(key="source").proto.set_value  # it may be typed into


def test_a_first_page_waits_for_the_model_but_a_page_with_a_picture_does_not(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def ready(self: Opening, seconds: float) -> bool:
        waits.append(seconds)
        return False

    monkeypatch.setattr(Opening, "ready", ready)
    app = app_on(slow.name)
    app.run()
    assert waits == [opening.BAR_DELAY, opening_bar.WAIT]
    waits.clear()
    app.session_state["live session"].run = CurrentRun(
        dates := cache.scope("dates"), dates.run(DATE)
    )
    app.run()
    assert waits == [0]


def test_no_clock_asks_for_reruns_while_a_model_opens(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that a browser sends by itself carries the values of all widgets, and under load these are older than what Python
    has just set: the previous model would replace that of the link."""
    sent: list[str] = []
    enqueue = ScriptRunContext.enqueue
    monkeypatch.setattr(
        ScriptRunContext,
        "enqueue",
        lambda self, message: (sent.append(message.WhichOneof("type")), enqueue(self, message))[1],
    )
    app = pick(app_on("dates"), slow, monkeypatch)
    assert bar(app)
    assert "delta" in sent
    assert "auto_rerun" not in sent


def test_the_bar_belongs_to_the_rerun_whose_end_the_browser_awaits(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = pick(app_on("dates"), slow, monkeypatch)
    reruns = [
        json.loads(component(app, key).json)["edition"][1] for key in ("opening progress", "live")
    ]
    assert reruns[0] == reruns[1]
    app.run()
    assert json.loads(component(app, "opening progress").json)["edition"][1] == reruns[0] + 1


class Asked:
    """A browser's request for the progress of an opening."""

    def __init__(self, number: int, token: str) -> None:
        self.path_params = {"number": str(number)}
        self.headers = {"authorization": f"Bearer {token}"}

    def answer(self) -> dict:
        response = asyncio.run(opening_route._tell(self))
        return json.loads(response.body) if response.status_code == 200 else {}


@pytest.mark.slow
def test_the_browser_is_told_how_far_an_opening_has_come(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = pick(app_on("dates"), slow, monkeypatch)
    session = app.session_state["live session"]
    asked = Asked(session.opening.number, session.token)
    assert asked.answer() == {
        "ready": False,
        "share": pytest.approx(0.7 * 3 / 12),
        "progress": "3 of 12 tensors placed",
    }
    assert Asked(session.opening.number, "of nobody").answer() == {}
    assert Asked(session.opening.number + 1, session.token).answer() == {"ready": True}
    monkeypatch.setattr(opening_route, "OPENING_LOOK_SECONDS", 60)
    threading.Timer(0.05, slow.free.set).start()
    assert asked.answer()["ready"]  # as soon as it has ended
    finished(app, monkeypatch)
    assert asked.answer() == {"ready": True}


def test_a_model_that_others_gave_up_is_opened_for_whoever_needs_it(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = opening.opening_for(slow.name, "a session that gives up")
    assert slow.at.wait(60)
    opened: list[Scope] = []
    waiting = threading.Thread(target=lambda: opened.append(cache.scope(slow.name)))
    waiting.start()
    one.give_up("a session that gives up")
    slow.free.set()
    waiting.join(60)
    assert [scope.name for scope in opened] == [slow.name]
    assert slow.calls == 2


class HandingOver:
    """A lock whose waiter continues the moment it is first released."""

    def __init__(self, next_one: Callable[[], object]) -> None:
        self._lock, self._waiting = threading.Lock(), [next_one]

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *raised: object) -> None:
        self._lock.release()
        if self._waiting:
            self._waiting.pop()()


def test_a_session_that_comes_while_an_opening_is_given_up_does_not_wait_for_it(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = opening.opening_for(slow.name, "a session that gives up")
    assert slow.at.wait(60)
    came: list[Opening | None] = []
    monkeypatch.setattr(
        opening,
        "_lock",
        HandingOver(lambda: came.append(opening.opening_for(slow.name, "another"))),
    )
    one.give_up("a session that gives up")
    slow.free.set()
    assert came[0].ready(60)
    assert opening.result(came[0]).name == slow.name


@pytest.mark.slow
def test_the_old_model_stays_until_the_new_one_is_open(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_on("dates")
    about, weights = head(app)
    assert "model: dates\n" in about
    pick(app, slow, monkeypatch)
    assert picker(app)["value"] == slow.name
    assert bar(app) == [(pytest.approx(0.7 * 3 / 12), "3 of 12 tensors placed")]
    assert head(app)[0] == about
    assert (head(app)[1] == weights).all()
    app.text_area(key="source").set_value("4 June 2001").run()  # and it still answers
    assert "4 June 2001" in head(app)[0]
    assert "model: dates\n" in head(app)[0]
    slow.free.set()
    finished(app, monkeypatch)
    assert bar(app) == []
    assert f"model: {slow.name}\n" in head(app)[0]
    assert slow.calls == 1


def test_stopping_leaves_the_old_model_chosen(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    app = pick(app_on("dates"), slow, monkeypatch)
    about, _ = head(app)
    app.button(key="stop-opening").click().run()
    assert not app.exception
    assert picker(app)["value"] == "dates"
    assert bar(app) == []
    assert head(app)[0] == about
    slow.free.set()
    assert slow.ended.wait(60)
    assert not cache.is_open(slow.name)
    pick(app, slow, monkeypatch)  # and it can be picked again
    finished(app, monkeypatch)
    assert f"model: {slow.name}\n" in head(app)[0]


def test_a_failed_load_is_reported_at_the_picker_and_not_retried_at_every_rerun(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = pick(app_on("dates"), slow, monkeypatch)
    about, weights = head(app)
    slow.fails = "its weights are <b>odd</b>"
    slow.free.set()
    finished(app, monkeypatch)
    for _ in range(2):
        assert said(app, "note checkpoint") == {
            **said(app, "note checkpoint"),
            "look": "note bad",
            "rows": [["line", slow.fails]],
        }
        assert bar(app) == []
        assert head(app)[0] == about
        assert (head(app)[1] == weights).all()
        app.run()
    assert slow.calls == 1
    slow.fails = ""
    pick_model(app, "dates")
    pick_model(app, slow.name)
    assert f"model: {slow.name}\n" in head(app)[0]
    assert slow.calls == 2


@pytest.mark.slow
def test_two_sessions_open_it_once_and_one_of_them_may_leave(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (pick(app_on("dates"), slow, monkeypatch) for _ in range(2))
    one.button(key="stop-opening").click().run()
    slow.free.set()
    finished(two, monkeypatch)
    assert f"model: {slow.name}\n" in head(two)[0]
    assert "model: dates\n" in head(one)[0]
    assert slow.calls == 1


@pytest.mark.slow
def test_a_model_too_large_for_the_cache_is_opened_once_and_released_with_its_viewers(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "cache_store", ByteCache(MEGABYTE))
    app = pick(app_on("dates-rnn"), slow, monkeypatch)
    slow.free.set()
    finished(app, monkeypatch)
    app.run()
    assert f"model: {slow.name}\n" in head(app)[0]
    assert slow.calls == 1
    assert not [
        key for key in (*store.cache_store._long, *store.cache_store._others) if key[0] == "opened"
    ]
    assert opening._under_way == {}


def test_a_model_that_no_session_takes_is_not_held(slow: Slow) -> None:
    one = opening.opening_for(slow.name, "a session that goes")
    slow.free.set()
    assert one.ready(60)
    assert opening._under_way == {}
    slow.fails, slow.name = "odd", "dates-rnn"
    other = opening.opening_for("dates-rnn", "s")
    assert other.ready(60)
    error = other.future.exception()
    frames = []
    trace = error.__traceback__
    while trace:
        frames.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert (str(error), error.__context__, error.__cause__) == ("odd", None, None)
    assert "__call__" not in frames


def test_another_pick_gives_up_the_one_before(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    app = pick(app_on("dates"), slow, monkeypatch)
    monkeypatch.setattr(opening, "BAR_DELAY", 600)
    pick_model(app, "dates-scaled-dot")
    assert "model: dates-scaled-dot\n" in head(app)[0]
    slow.free.set()
    assert slow.ended.wait(60)
    assert not cache.is_open(slow.name)


@pytest.mark.slow
def test_a_link_to_a_model_that_is_being_opened_keeps_its_parameters(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "BAR_DELAY", 0)
    app = app_at(checkpoint=slow.name, source="7 July 1977", strength="root")
    assert slow.at.wait(60)
    app.run()
    assert not app.exception
    assert "Loading the model" in prose(app)
    slow.free.set()
    finished(app, monkeypatch)
    header, _ = picture(app, "head")
    assert "7 July 1977" in header["about"]
    assert header["scale"] == "root"


def test_a_model_that_waits_for_its_turn_says_so(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, entered = threading.Event(), threading.Semaphore(0)

    def hold(name: str) -> Scope:
        entered.release()
        assert held.wait(60)
        raise CheckpointError(name)

    monkeypatch.setattr(checkpoints, "open_found", hold)
    others = [opening.opening_for(f"other {n}", "s") for n in range(opening.MAX_OPENINGS)]
    for _ in others:
        assert entered.acquire(timeout=PATIENCE)
    last = opening.opening_for("last", "s")
    while last.progress == "Loading the model…":
        time.sleep(0.01)
    assert (last.progress, last.share) == ("Waiting for another model to open…", 0)
    assert others[0].progress == "Loading the model…"
    last.give_up("s")
    assert isinstance(last.future.exception(60), CheckpointError)
    held.set()
    for other in others:
        assert other.ready(60)
        with pytest.raises(CheckpointError):
            opening.result(other)


def test_folders_with_an_endless_trial_hold_up_no_others(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are more of them than may be opened at once; each ends when it is given up."""
    entered = threading.Semaphore(0)

    def hold(name: str) -> Scope:
        if name == "other":
            return models.load("dates", device="cpu")
        with loading.out_of_turn():
            entered.release()
            while True:
                loading.report_progress(loading.TRIED, 0, 1)
                time.sleep(0.01)

    monkeypatch.setattr(checkpoints, "open_found", hold)
    stuck = [opening.opening_for(f"stuck {n}", "s") for n in range(3 * opening.MAX_OPENINGS)]
    for _ in stuck:
        assert entered.acquire(timeout=PATIENCE)
    other = opening.opening_for("other", "t")
    assert other.ready(60)
    assert opening.result(other).name == "dates"
    assert stuck[0].progress == "Checking that the model is safe to open…"
    for each in stuck:
        each.give_up("s")
        assert isinstance(each.future.exception(60), CheckpointError)
    free = [opening._turns.acquire(blocking=False) for _ in range(opening.MAX_OPENINGS + 1)]
    assert free == [True] * opening.MAX_OPENINGS + [False]
    for _ in range(opening.MAX_OPENINGS):
        opening._turns.release()


def test_the_bar_covers_everything_that_is_counted(slow: Slow) -> None:
    one = opening.Opening.__new__(opening.Opening)
    shares = []
    for what in (loading.PLACED, loading.CHECKED, loading.HASHED):
        for done in range(4):
            one._progress = what, done, 3
            shares.append(one.share)
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
    one._progress = loading.READ, 3 * MEGABYTE // 2, 2 * MEGABYTE
    assert one.progress == "1.5 of 2.0 MB of its weights read"


def test_a_checkpoint_reports_its_progress_and_loading_can_be_stopped() -> None:
    told = []
    with loading.report_loading(lambda *reached: told.append(reached)):
        scope = models.load("dates", device="cpu")
    size = (scope.path / "model.safetensors").stat().st_size
    assert told[0][0] == loading.READ
    assert (loading.READ, size, size) in told
    n = len(scope.model.state_dict())
    assert told[-1] == (loading.HASHED, n, n)

    def stop(what: str, done: int, total: int) -> None:
        raise loading.Cancelled("enough")

    with loading.report_loading(stop), pytest.raises(loading.Cancelled, match="enough"):
        models.load("dates", device="cpu")
    assert not loading.is_watched()


LESSON = f"""# Two models of dates
About both.
minutes: 3

## Do both write the same?
open: task?checkpoint=dates&source={DATE.replace(" ", "+")}
The second one is another architecture.

predict: choose
- same: The same
- other: Another date
then: ?checkpoint=dates-bahdanau
happened: {{run.model = 'dates' ? other | same}}
reveal: It is {{run.model}}.
"""


@pytest.mark.slow
def test_a_lesson_does_not_describe_the_previous_model_while_its_own_is_opened(
    slow: Slow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "mine.md").write_text(LESSON)
    monkeypatch.setenv(library.LESSONS_VARIABLE, str(tmp_path))
    app = app_at("task", checkpoint="dates", source=DATE, lesson="mine")
    monkeypatch.setattr(opening, "BAR_DELAY", 0)
    with in_session(app):
        mine = offered_lessons().named("mine")
        lesson_state.predict(mine, 1, "same", app.session_state["live session"])
    app.run()
    assert slow.at.wait(60)
    waits = said(app.run(), "lesson")
    assert (waits["form"], waits["reveal"]) == (None, None)
    assert "is being opened" in waits["departure"]
    slow.free.set()
    told = said(finished(app, monkeypatch), "lesson")
    assert (told["reveal"]["agrees"], told["reveal"]["paragraphs"]) == (
        True,
        ["It is dates-bahdanau."],
    )
    assert told["departure"] == ""
