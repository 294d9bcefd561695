"""The run that a session trains or watches, the run before it, and what is shown of them."""

from dataclasses import dataclass

import streamlit as st

from models.trace import AttentionSite
from viz_app.drawing.sites import by_kind
from viz_app.session import run_owners, url_state
from viz_app.session.parameters import Choice
from viz_app.singletons import made_once
from viz_app.trainers.example_pictures import ExamplePictures
from viz_app.trainers.run import STOPPED, TrainingRun
from viz_app.trainers.settings import RunSettings
from viz_app.trainers.watched import WatchedRun

SPEEDS = {0: "full speed", 10: "10 steps a second", 1: "1 step a second"}
TRAIN_SITE = Choice("train-site")
AT = Choice("train-step", is_step=False)  # the step looked at; None: the last one
_KEY = "training"


@dataclass
class TrainingPictures:
    """A run and the pictures of its example."""

    run: TrainingRun | WatchedRun
    pictures: ExamplePictures


class Training:
    """The runs of one session; until it starts one, the watched run if there is one."""

    def __init__(self) -> None:
        self.now: TrainingPictures | None = _watched()
        self.before: TrainingPictures | None = None
        self.speed = 0
        self.error = ""
        self.chart: tuple[object, dict] | None = None  # the data it was drawn from, and the chart
        self.charted = 0.0  # when the chart was drawn
        self.drawn: tuple[str, bool] = (
            "",
            False,
        )  # what `control_state` was when the buttons were drawn

    @property
    def run(self) -> TrainingRun | WatchedRun | None:
        return self.now.run if self.now else None

    @property
    def controlled(self) -> TrainingRun | None:
        """The run, if this session started it."""
        return self.run if isinstance(self.run, TrainingRun) else None

    @property
    def watched(self) -> WatchedRun | None:
        """The run, if it was started on the command line."""
        return self.run if isinstance(self.run, WatchedRun) else None

    @property
    def control_state(self) -> tuple[str, bool]:
        """The state of the run, and whether there is an attention to choose."""
        return (
            (self.now.run.state, self.now.pictures.trace is not None) if self.now else ("", False)
        )

    def start(self, settings: RunSettings | None, *, paused: bool = False) -> None:
        """Start a new run; the previous one stays beside it. Without settings nothing starts."""
        self.error = ""
        if settings is None:
            return
        try:
            run = run_owners.pool().begin(
                settings, run_owners.session_id(), url_state.get(TRAIN_SITE) or ""
            )
        except ValueError as error:
            self.error = str(error)
            return
        url_state.set_value(AT, None)
        run.set_speed(self.speed)
        if paused:
            run.one_step()
        if self.now is not None and self.now.run.step:
            self.before = self.now
        self.now = TrainingPictures(run, ExamplePictures(run))

    def pause(self) -> None:
        if self.controlled:
            self.controlled.pause()

    def go_on(self) -> None:
        """Continue the run, from its saved state if it has stopped."""
        if not (run := self.controlled):
            return
        url_state.set_value(AT, None)
        run.go_on()
        self._queue_again(run)

    def one_step(self, settings: RunSettings | None) -> None:
        """Take one step of the run, or the first of a new one."""
        if not (run := self.controlled):
            self.start(settings, paused=True)
            return
        url_state.set_value(AT, None)
        run.one_step()
        self._queue_again(run)

    def _queue_again(self, run: TrainingRun) -> None:
        self.error = ""
        if run.state == STOPPED:
            try:
                run_owners.pool().submit(run)
            except ValueError as error:
                self.error = str(error)

    def reset(self) -> None:
        """Forget the runs; what they have written can still be opened."""
        if self.controlled:
            self.controlled.stop()
        self.now, self.before, self.chart = _watched(), None, None
        self.error = ""

    def set_speed(self, steps: int) -> None:
        self.speed = steps
        if self.controlled:
            self.controlled.set_speed(steps)


def _watched() -> TrainingPictures | None:
    run = run_owners.watched_run()
    return TrainingPictures(run, _pictures(run)) if run else None


@made_once
def _pictures(run: WatchedRun) -> ExamplePictures:
    """Return the pictures of the watched run, shared by all sessions."""
    return ExamplePictures(run)


def opens_here(is_linked: bool) -> bool:
    """Return True once for a session that opens without a link while a run is watched."""
    is_new = _KEY not in st.session_state
    return is_new and training().watched is not None and not is_linked


def training() -> Training:
    """Return the runs of this session."""
    return st.session_state.setdefault(_KEY, Training())


def chosen_site(now: TrainingPictures) -> AttentionSite | None:
    """Return the chosen attention; by default that of the last layer of the last kind."""
    if (trace := now.pictures.first()) is None or not trace.attention:
        return None
    if isinstance(now.run, TrainingRun) and now.run.folder is not None:
        run_owners.grant_run(now.run.folder)
    groups = by_kind(trace)
    usual = groups[-1][1][-1].name
    name = url_state.get(TRAIN_SITE)
    site = trace.attention[name if name in trace.attention else usual]
    now.run.watch(site.name)
    return site
