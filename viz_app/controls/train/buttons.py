"""The controls of the page Train: the settings of the next run, and the buttons of this one."""

import streamlit as st

from viz_app import ui
from viz_app.controls import pick
from viz_app.controls.train import text
from viz_app.controls.train.form import chosen_settings, form, in_words, trains
from viz_app.controls.train.watching import choose_site
from viz_app.session.training import SPEEDS, Training, training
from viz_app.trainers.run import PAUSED, PAUSING, STOPPED
from viz_app.trainers.settings import RunSettings


def buttons() -> None:
    """Draw the settings and the buttons; without trainers, the buttons of the watched run."""
    now = training()
    if now.watched:
        now.watched.look()
    settings = form() if trains() else None
    problems = settings.problems() if settings else {"": ""}
    with pick.row("train-buttons", "small"):
        _buttons(now, is_bad=bool(problems))
        choose_site()
    if settings:
        _say(settings, now.error)


def _buttons(now: Training, *, is_bad: bool) -> None:
    """Draw the buttons; those that cannot act on a run of the command line say so on hover."""
    run = now.controlled
    rests = run is not None and run.state in (PAUSED, PAUSING, STOPPED)
    runs = rests or (run is not None and run.is_active)
    why = text.NOT_HERE if now.watched else None
    pick.button(
        "Start", "train-start", lambda: now.start(chosen_settings()), type="primary",
        icon=":material/play_arrow:", disabled=is_bad,
        help="Train a new run with these settings." if trains() else text.NO_TRAINERS,
    )  # fmt: skip
    pick.button(
        "Go on" if rests else "Pause", "train-pause", now.go_on if rests else now.pause,
        icon=":material/resume:" if rests else ":material/pause:", disabled=not runs, help=why,
    )  # fmt: skip
    can_step = runs or (now.run is None and not is_bad)
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
        "Speed", key, list(SPEEDS), now.speed, lambda: now.set_speed(st.session_state[key]), SPEEDS.__getitem__,
        label_visibility="collapsed", disabled=is_disabled,
    )  # fmt: skip


def _say(settings: RunSettings, error: str) -> None:
    """Say what the next run would change, or why none can begin."""
    usual = RunSettings(settings.task, settings.model)
    size = (
        ""
        if settings.problems()
        else f"{settings.n_parameters:,} parameters, {settings.recipe.steps:,} steps"
    )
    differs = in_words(settings, usual)
    changes = f"; differs from the recipe: {differs}" if differs else ""
    slot, line = st.container(key="train-next"), f"{size}{changes}".strip("; ")
    ui.note(slot, error or line, bad=bool(error), key="train-next-line")
