"""The controls of the page Train: the settings of the next run, and the buttons of this one."""

import streamlit as st

from viz_app import ui
from viz_app.controls import pick
from viz_app.controls.train.form import chosen_settings, form, in_words
from viz_app.controls.train.watching import choose_site
from viz_app.session.training import SPEEDS, training
from viz_app.trainers.run import PAUSED, PAUSING, STOPPED
from viz_app.trainers.settings import RunSettings


def buttons() -> None:
    """Draw the settings and the buttons."""
    settings, now = form(), training()
    run = now.run
    rests = run is not None and run.state in (PAUSED, PAUSING, STOPPED)
    is_bad = bool(settings.problems())
    with pick.row("train-buttons", "small"):
        pick.button(
            "Start", "train-start", lambda: now.start(chosen_settings()), type="primary",
            icon=":material/play_arrow:", disabled=is_bad, help="Train a new run with these settings.",
        )  # fmt: skip
        pick.button(
            "Go on" if rests else "Pause", "train-pause", now.go_on if rests else now.pause,
            icon=":material/resume:" if rests else ":material/pause:", disabled=not (rests or (run and run.is_active)),
        )  # fmt: skip
        can_step = (run is None and not is_bad) or (run is not None and (rests or run.is_active))
        pick.button(
            "One step", "train-step-button", lambda: now.one_step(chosen_settings()), icon=":material/skip_next:",
            disabled=not can_step,
        )  # fmt: skip
        pick.button(
            "Reset", "train-reset", now.reset, icon=":material/restart_alt:", disabled=run is None
        )
        _speed()
        choose_site()
    _say(settings, now.error)


def _speed() -> None:
    now, key = training(), "train-speed"
    pick.from_list(
        "Speed", key, list(SPEEDS), now.speed, lambda: now.set_speed(st.session_state[key]), SPEEDS.__getitem__,
        label_visibility="collapsed",
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
