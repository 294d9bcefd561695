"""The settings of the next run: a control each, with what is wrong below it."""

from typing import Any

import streamlit as st

from viz_app import ui
from viz_app.components.catalogue import OWN_DATA
from viz_app.components.mounting import show
from viz_app.controls import pick
from viz_app.session import own_data_route, run_owners, url_state
from viz_app.session.live import live_session
from viz_app.session.parameters import Choice, Number, Parameter, Whole
from viz_app.trainers.own_data import DATA_KINDS, MAX_OWN_DATA_BYTES
from viz_app.trainers.settings import (
    FLOAT_LIMITS,
    INTEGER_LIMITS,
    SETTING_CHOICES,
    RunSettings,
    offered_tasks,
)

TRAIN_TASK, TRAIN_MODEL = Choice("train-task", "copy"), Choice("train-model")
SETTING_LABELS = {
    "d_model": "d_model", "n_heads": "Heads", "n_layers": "Layers", "n_encoder_layers": "Encoder layers",
    "n_decoder_layers": "Decoder layers", "n_self_layers": "Self-attention layers", "d_hidden": "d_hidden", "window": "Window",
    "norm": "LayerNorm", "decoder_mask": "Decoder mask", "positions": "Positions",
    "similarity": "Similarity", "learning_rate": "Learning rate", "seed": "Seed",
}  # fmt: skip
SETTING_HELP = {
    "d_model": "Size of a token's vector; in a model with heads, a multiple of their number.",
    "window": "How many earlier tokens a position may attend to; 0: all of them.",
    "decoder_mask": "With none, each position also reads the tokens after it, the answer among them.",
    "norm": "After each sublayer (post, as in the paper) or before it (pre).",
    "learning_rate": "Factor on the paper's schedule: it rises, then falls with 1/√step.",
    "seed": "Seeds the initial weights and the data; the same seed gives the same run, bit for bit.",
}


def _parameter(name: str) -> Parameter:
    url_name = f"train-{name.replace('_', '-')}"
    if name in SETTING_CHOICES:
        return Choice(url_name, options=SETTING_CHOICES[name], is_step=False)
    if name in FLOAT_LIMITS:
        low, high = FLOAT_LIMITS[name]
        return Number(url_name, None, low=low, high=high)  # type: ignore[arg-type]
    low, high = INTEGER_LIMITS[name]
    return Whole(url_name, None, low=low, high=high)


PARAMETERS = {name: _parameter(name) for name in (*INTEGER_LIMITS, *SETTING_CHOICES, *FLOAT_LIMITS)}


def _tasks() -> dict[str, list[str]]:
    """Return task or kind of own data → models."""
    return offered_tasks() | {kind: list(data.tasks) for kind, data in DATA_KINDS.items()}


def _chosen() -> tuple[str, str]:
    """Return the task, or the kind of own data, and the model."""
    tasks = _tasks()
    usual = TRAIN_TASK.default if TRAIN_TASK.default in tasks else next(iter(tasks))
    task = url_state.chosen_option(TRAIN_TASK, list(tasks), usual)
    return task, url_state.chosen_option(TRAIN_MODEL, tasks[task], tasks[task][0])


def chosen_settings() -> RunSettings | None:
    """Return what the session has chosen, without drawing it; None while its data are missing."""
    task, model = _chosen()
    if task not in DATA_KINDS:
        settings = RunSettings(task, model)
    elif (data := live_session().own_data) and data.kind == task:
        settings = RunSettings(data.of.tasks[model], model, own=data)
    else:
        return None
    return settings.having(**{name: url_state.get(PARAMETERS[name]) for name in settings.names})


def form() -> RunSettings | None:
    """Draw the controls and return the chosen settings; None while the data are missing."""
    chosen, (task, model) = chosen_settings(), _chosen()
    with pick.control_row("train-settings", "small"):
        _list("Task", TRAIN_TASK, list(_tasks()), task, key="train-task-cell")
        _list("Model", TRAIN_MODEL, _tasks()[task], model, key="train-model-cell")
        if chosen:
            _controls(chosen)
    if task in DATA_KINDS:
        _own_data(task)
    return chosen


def _controls(chosen: RunSettings) -> None:
    problems = chosen.problems()
    for name in chosen.names:
        with st.container(key=f"train-cell-{name.replace('_', '-')}"):
            _control(chosen, name)
            if message := problems.get(name):
                ui.show_note(st.container(), message, bad=True, key=f"train-{name}")


def _own_data(kind: str) -> None:
    """Draw the box for data of one's own."""
    live = live_session()
    data = live.own_data if live.own_data and live.own_data.kind == kind else None
    picture = {
        "path": own_data_route.own_data_path(kind),
        "token": live.token,
        "most": MAX_OWN_DATA_BYTES,
        "expects": DATA_KINDS[kind].expects,
        "kept": f"{data.name}: {data.in_words}" if data else "",
    }
    show(OWN_DATA, picture, "train-own-data", on_kept=lambda: None)


def _list(label: str, parameter: Choice, options: list[str], value: str, *, key: str) -> None:
    with st.container(key=key):
        pick.one_of_many(label, parameter, options, value)


def _control(settings: RunSettings, name: str) -> None:
    """Draw the control of one setting; an empty box is the recipe's value."""
    parameter, usual, label = PARAMETERS[name], settings.usual(name), SETTING_LABELS[name]
    if name in SETTING_CHOICES:
        value = url_state.get(parameter) or usual
        pick.one_of_many(
            label, parameter, list(SETTING_CHOICES[name]), value, help=SETTING_HELP.get(name)
        )
        return
    low, high = (INTEGER_LIMITS | FLOAT_LIMITS)[name]
    bounds: dict[str, Any] = {"step": 0.1, "format": "%g"} if name in FLOAT_LIMITS else {}
    st.number_input(
        label, low, high, None, placeholder=f"{usual:g}", help=SETTING_HELP.get(name), **bounds,
        **url_state.bound(parameter, url_state.get(parameter)),
    )  # fmt: skip


def settings_difference(settings: RunSettings, other: RunSettings) -> str:
    """Return what differs from another run, whose values are in brackets: "d_model 32 (64)"."""
    return ", ".join(
        f"{name.replace('_', ' ') if name in ('task', 'model') else name} {ours} ({theirs})"
        for name, ours, theirs in settings.differences(other)
    )


def trains() -> bool:
    """Return True if runs can be begun here."""
    return run_owners.pool().n > 0 and bool(offered_tasks())
