"""The pictures of the runs: redrawn while one is trained, at any kept step once it rests."""

import re
import time
from dataclasses import dataclass

import numpy as np
import streamlit as st

from models.printable import printable
from models.trace import AttentionSite, Trace
from viz_app import ui, words
from viz_app.checkpoints import is_shared
from viz_app.components.catalogue import MAPS
from viz_app.components.mounting import show
from viz_app.controls import pick
from viz_app.controls.train import text
from viz_app.controls.train.form import settings_difference
from viz_app.controls.train.kept_steps import compare_button, kept_steps, nearest_step
from viz_app.drawing.attention_maps import attention_maps
from viz_app.drawing.learning_chart import Curve, learning_chart
from viz_app.drawing.provenance import file_name
from viz_app.drawing.sites import by_kind
from viz_app.drawing.stamp import of_step, saving
from viz_app.session import run_owners, url_state
from viz_app.session.live import live_session
from viz_app.session.remembered import recall
from viz_app.session.training import (
    AT,
    TRAIN_SITE,
    Training,
    TrainingPictures,
    chosen_site,
    training,
)
from viz_app.trainers.run import FAILED, PAUSED, RUNNING, TrainingRun
from viz_app.trainers.watched import WatchedRun

# s between two redraws: of a run under way, of one that waits, of one that may be gone on with
REDRAW_SECONDS, LOOK_SECONDS, RESTING_SECONDS = 0.2, 0.5, 2.0
CHARTED = 1.0  # s between two new charts
_MARKDOWN_SIGNS = re.compile(r"[\\`*_$~:<\[\]]")


@dataclass(frozen=True)
class Moment:
    """The weights that are drawn: of a site, at a step."""

    step: int
    weights: np.ndarray | None


def watch_runs() -> None:
    """Draw the runs of this session, again and again while one is under way."""
    now = training()
    run = now.run
    every = None
    if run is not None and _goes_on(run):
        every = REDRAW_SECONDS if run.state == RUNNING else LOOK_SECONDS
    elif now.watched:
        every = RESTING_SECONDS
    ui.redraw_alone(_draw, every=every)


def _draw() -> None:
    """Draw status, chart and attention; rerun the page once its buttons show another state."""
    now = training()
    run = now.run
    if now.watched:
        now.watched.look()
    if now.control_state != now.drawn or live_session().leaves_for:
        st.rerun()
    if run is None or now.now is None:
        st.markdown(text.NOTHING_TRAINED)
        return
    _status(now.now)
    site = chosen_site(now.now)
    moment = _moment(now.now, site)
    left, right = st.columns([1, 3.2], gap="medium")
    with left:
        if chart := _chart(now, moment.step if moment else run.step):
            st.vega_lite_chart(chart, key="train-curve", theme=None)
    with right:
        _attention(now, site, moment)


def _status(now: TrainingPictures) -> None:
    """Say where the run is, and what of it cannot be read."""
    run = now.run
    if isinstance(run, WatchedRun):
        line, bad = text.watched_status(run), bool(run.problem)
    else:
        line, bad = text.status(run, run_owners.pool().place(run)), run.state == FAILED
    slot = st.container(key="train-status")
    ui.show_note(slot, line, bad=bad, key="train-status-line")
    if now.pictures.problem:
        message = printable(now.pictures.problem)[: text.MAX_MESSAGE_SHOWN]
        ui.show_note(slot, message, bad=True, key="train-weights-line")


def _moment(now: TrainingPictures, site: AttentionSite | None) -> Moment | None:
    """Return the weights to draw: the latest while the run goes on, else the chosen step's."""
    run = now.run
    if site is None:
        return None
    if not (steps := run.snapshots):
        return None
    if _goes_on(run):
        if run.latest and run.latest[1] == site.name and _fits(run.latest[2], site):
            return Moment(run.latest[0], run.latest[2])
        return Moment(steps[-1], now.pictures.weights(steps[-1], site.name))
    step = url_state.chosen_option(AT, steps, steps[-1])
    return Moment(step, now.pictures.weights(step, site.name))


def _goes_on(run: TrainingRun | WatchedRun) -> bool:
    return run.is_active and run.state != PAUSED


def _fits(weights: np.ndarray, site: AttentionSite) -> bool:
    return weights.shape == (site.n_heads, site.n_query, site.n_key)


def _chart(now: Training, step: int) -> dict:
    """Return the chart, redrawn at most once a second while only the run changes.

    It is empty before the first point.
    """
    runs = [one for one in (now.now, now.before) if one]
    screen = ui.screen()
    key = [id(one.run) for one in runs], ui.is_dark(), screen
    rests = not (now.run and now.run.state == RUNNING)
    last_chart = now.chart
    if (
        last_chart
        and last_chart[0] == key
        and not rests
        and time.monotonic() - now.charted < CHARTED
    ):
        return last_chart[1]
    names = ["this run", "the run before"]
    curves = [Curve(name, one.run.points()) for name, one in zip(names, runs, strict=False)]
    metric = runs[0].run.metric
    look, last = ui.page_look(), max(one.run.steps for one in runs)
    chart = learning_chart(curves, metric, step, last, look, screen=screen)
    now.chart, now.charted = (key, chart), time.monotonic()
    return chart


def _attention(now: Training, site: AttentionSite | None, moment: Moment | None) -> None:
    """Draw the attention of the run, below it that of the run before, and the slider."""
    one = now.now
    assert one is not None
    trace = one.pictures.trace
    if trace is not None and not trace.attention:
        st.markdown(text.NO_ATTENTION_TO_WATCH)
        return
    if trace is None or site is None or moment is None:
        return
    if moment.weights is None:
        if not one.pictures.problem:
            st.markdown(text.TOO_LARGE)
    else:
        _maps(one.run, trace, site, moment, "train-maps")
    if not _goes_on(one.run):
        kept_steps(one, site.name, moment.step)
        _show_storage_note(one.run)
    if now.before is not None:
        _beside(now.before, one, site, moment)


def _show_storage_note(run: TrainingRun | WatchedRun) -> None:
    """Say where a run on own data is kept, on the machine that serves the app."""
    if isinstance(run, TrainingRun) and run.settings.own and not is_shared():
        ui.show_note(st.container(key="train-kept"), text.storage_note(run), key="train-kept-line")


def _maps(
    run: TrainingRun | WatchedRun, trace: Trace, site: AttentionSite, moment: Moment, key: str
) -> None:
    terms = words.terms(run.task)
    title = f"{words.kind_title(site)}, layer {site.layer + 1}, step {moment.step:,}"
    saved = saving(file_name(trace, "attention", step=moment.step), of_step(trace, moment.step))
    assert moment.weights is not None
    with st.container(key=f"{key}-room"):
        show(MAPS, attention_maps(trace, site, moment.weights, terms, title, saved), key)


def _beside(
    before: TrainingPictures, now: TrainingPictures, site: AttentionSite, moment: Moment
) -> None:
    """Draw the run before at the nearest step, and say what differs."""
    trace = before.pictures.first()
    has_site = trace is not None and site.name in trace.attention
    with st.container(key="train-before", horizontal=True, vertical_alignment="center"):
        st.markdown(_which_before(before.run, now.run), width="stretch")
        if has_site and not _goes_on(now.run) and before.run.task == now.run.task:
            compare_button(now, before, site.name, moment.step)
    if trace is None or not has_site:
        return
    step = nearest_step(before, moment.step)
    weights = before.pictures.weights(step, site.name)
    if weights is not None:
        other = trace.attention[site.name]
        _maps(before.run, trace, other, Moment(step, weights), "train-maps-before")


def _which_before(before: TrainingRun | WatchedRun, now: TrainingRun | WatchedRun) -> str:
    if isinstance(before, TrainingRun) and isinstance(now, TrainingRun):
        differs = settings_difference(before.settings, now.settings) or "nothing"
        differs = _MARKDOWN_SIGNS.sub(r"\\\g<0>", differs)  # a file's name may have them
        return f"**The run before** differs in: {differs}."
    # of the watched run only what its files say is known
    return "**The run before**, at the nearest step that is kept."


def choose_site() -> None:
    """Draw the choice of the attention that is watched."""
    now, key = training().now, "train-attention"
    if now is None or (site := chosen_site(now)) is None or now.pictures.trace is None:
        return
    sites = [each for _, group in by_kind(now.pictures.trace) for each in group]
    names = {each.name: f"{words.kind_short(each)}, layer {each.layer + 1}" for each in sites}
    pick.from_list(
        "Attention", key, list(names), site.name, lambda: url_state.set_value(TRAIN_SITE, recall(key, site.name)), names.__getitem__,
        label_visibility="collapsed",
    )  # fmt: skip
