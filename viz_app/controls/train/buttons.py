"""The controls of the page Train: the settings of the next run, and the buttons of this one."""

from dataclasses import replace

import streamlit as st

from models.training.recipes import settings_line as plan_in_words
from viz_app import ui
from viz_app.controls import pick
from viz_app.controls.train import text
from viz_app.controls.train.form import chosen_settings, form, settings_difference, trains
from viz_app.controls.train.watching import choose_site
from viz_app.session.remembered import recall
from viz_app.session.training import SPEEDS, Training, training
from viz_app.trainers.run import PAUSED, PAUSING, STOPPED
from viz_app.trainers.settings import RunSettings


def training_buttons() -> None:
    """Draw the settings and the buttons; without trainers, the buttons of the watched run."""
    now = training()
    if now.watched:
        now.watched.look()
    now.drawn = now.control_state
    settings = form() if trains() else None
    with pick.control_row("train-buttons", "small"):
        _buttons(now, can_begin=settings is not None and not settings.problems())
        choose_site()
    if trains():
        _say(settings, now.error)


def _buttons(now: Training, *, can_begin: bool) -> None:
    """Draw the buttons; those that cannot act on a run of the command line say so on hover."""
    run = now.controlled
    rests = run is not None and run.state in (PAUSED, PAUSING, STOPPED)
    runs = rests or (run is not None and run.is_active)
    why = text.ONLY_IN_TERMINAL if now.watched else None
    pick.button(
        "Start", "train-start", lambda: now.start(chosen_settings()), type="primary",
        icon=":material/play_arrow:", disabled=not can_begin,
        help="Train a new run with these settings." if trains() else text.NO_TRAINERS,
    )  # fmt: skip
    pick.button(
        "Resume" if rests else "Pause", "train-pause", now.go_on if rests else now.pause,
        icon=":material/resume:" if rests else ":material/pause:", disabled=not runs, help=why,
    )  # fmt: skip
    can_step = runs or (now.run is None and can_begin)
    pick.button(
        "One step", "train-step-button", lambda: now.one_step(chosen_settings()), icon=":material/skip_next:",
        disabled=not can_step, help=why,
    )  # fmt: skip
    pick.button(
        "Reset", "train-reset", now.reset, icon=":material/restart_alt:", disabled=run is None, help=why
    )  # fmt: skip
    _speed(is_disabled=now.watched is not None)


def _speed(*, is_disabled: bool) -> None:
    now, key = training(), "train-speed"
    pick.from_list(
        "Speed", key, list(SPEEDS), now.speed, lambda: now.set_speed(recall(key, now.speed)), SPEEDS.__getitem__,
        label_visibility="collapsed", disabled=is_disabled,
    )  # fmt: skip


def _say(settings: RunSettings | None, error: str) -> None:
    """Say what the next run would be or change, or why none can begin."""
    line = _next_run(settings) if settings else text.NO_DATA
    slot = st.container(key="train-next")
    ui.show_note(slot, error or line, bad=bool(error), key="train-next-line")


def _next_run(settings: RunSettings) -> str:
    if settings.problems():
        return ""
    if settings.own:
        planned = f"{settings.own.in_words}: {plan_in_words(settings.plan)}"
    else:
        size = f"{settings.n_parameters:,} parameters, {settings.recipe.steps:,} steps"
        planned = f"{text.task_in_words(settings.opened)}. {size}"
    differs = settings_difference(settings, replace(settings, changed=()))
    return planned + (f"; differs from the recipe: {differs}" if differs else "")
