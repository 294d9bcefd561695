"""The settings of the next run: a control each, with what is wrong below it."""

from typing import Any

import streamlit as st

from viz_app import ui
from viz_app.components.catalogue import OWN_DATA
from viz_app.components.mounting import show
from viz_app.controls import pick
from viz_app.session import own_data_route, run_owners, url_state
from viz_app.session.live import session
from viz_app.session.parameters import Choice, Number, Parameter, Whole
from viz_app.trainers.own_data import KINDS, LARGEST
from viz_app.trainers.settings import CHOICES, NUMBERS, WHOLE, RunSettings, offered

TASK, MODEL = Choice("train-task", "copy"), Choice("train-model")
LABELS = {
    "d_model": "d_model", "n_heads": "Heads", "n_layers": "Layers", "n_encoder_layers": "Encoder layers",
    "n_decoder_layers": "Decoder layers", "n_self_layers": "Self-attention layers", "d_hidden": "d_hidden", "window": "Window",
    "norm": "LayerNorm", "decoder_mask": "Decoder mask", "positions": "Positions",
    "similarity": "Similarity", "learning_rate": "Learning rate", "seed": "Seed",
}  # fmt: skip
HELP = {
    "d_model": "Width of the residual stream; a multiple of the number of heads.",
    "window": "How many earlier tokens a position may attend to; 0: all of them.",
    "decoder_mask": "With none, each position also reads the tokens after it, the answer among them.",
    "norm": "After each sublayer (post, as in the paper) or before it (pre).",
    "learning_rate": "Factor on the paper's schedule: it rises, then falls with 1/√step.",
    "seed": "Of the first weights and of the data; the same seed gives the same run, bit for bit.",
}


def _parameter(name: str) -> Parameter:
    url_name = f"train-{name.replace('_', '-')}"
    if name in CHOICES:
        return Choice(url_name, options=CHOICES[name], is_step=False)
    if name in NUMBERS:
        low, high = NUMBERS[name]
        return Number(url_name, None, low=low, high=high)  # type: ignore[arg-type]
    low, high = WHOLE[name]
    return Whole(url_name, None, low=low, high=high)


PARAMETERS = {name: _parameter(name) for name in (*WHOLE, *CHOICES, *NUMBERS)}


def _tasks() -> dict[str, list[str]]:
    """Return task or kind of own data → models."""
    return offered() | {kind: list(own.tasks) for kind, own in KINDS.items()}


def _chosen() -> tuple[str, str]:
    """Return the task, or the kind of own data, and the model."""
    tasks = _tasks()
    usual = TASK.default if TASK.default in tasks else next(iter(tasks))
    task = url_state.one_of(TASK, list(tasks), usual)
    return task, url_state.one_of(MODEL, tasks[task], tasks[task][0])


def chosen_settings() -> RunSettings | None:
    """Return what the session has chosen, without drawing it; None while its data are missing."""
    task, model = _chosen()
    if task not in KINDS:
        settings = RunSettings(task, model)
    elif (own := session().own_data) and own.kind == task:
        settings = RunSettings(own.of.tasks[model], model, own=own)
    else:
        return None
    return settings.having(**{name: url_state.get(PARAMETERS[name]) for name in settings.names})


def form() -> RunSettings | None:
    """Draw the controls and return the chosen settings; None while the data are missing."""
    chosen, (task, model) = chosen_settings(), _chosen()
    with pick.row("train-settings", "small"):
        _list("Task", TASK, list(_tasks()), task, key="train-task-cell")
        _list("Model", MODEL, _tasks()[task], model, key="train-model-cell")
        if chosen:
            _controls(chosen)
    if task in KINDS:
        _own_data(task)
    return chosen


def _controls(chosen: RunSettings) -> None:
    problems = chosen.problems()
    for name in chosen.names:
        with st.container(key=f"train-cell-{name.replace('_', '-')}"):
            _control(chosen, name)
            if message := problems.get(name):
                ui.note(st.container(), message, bad=True, key=f"train-{name}")


def _own_data(kind: str) -> None:
    """Draw the box for data of one's own."""
    live = session()
    data = live.own_data if live.own_data and live.own_data.kind == kind else None
    picture = {
        "path": own_data_route.path(kind),
        "token": live.token,
        "most": LARGEST,
        "expects": KINDS[kind].expects,
        "kept": f"{data.name}: {data.in_words}" if data else "",
    }
    show(OWN_DATA, picture, "train-own-data", on_kept=lambda: None)


def _list(label: str, parameter: Choice, options: list[str], value: str, *, key: str) -> None:
    with st.container(key=key):
        pick.one_of_many(label, parameter, options, value)


def _control(settings: RunSettings, name: str) -> None:
    """Draw the control of one setting; an empty box is the recipe's value."""
    parameter, usual, label = PARAMETERS[name], settings.usual(name), LABELS[name]
    if name in CHOICES:
        value = url_state.get(parameter) or usual
        pick.one_of_many(label, parameter, list(CHOICES[name]), value, help=HELP.get(name))
        return
    low, high = (WHOLE | NUMBERS)[name]
    bounds: dict[str, Any] = {"step": 0.1, "format": "%g"} if name in NUMBERS else {}
    st.number_input(
        label, low, high, None, placeholder=f"{usual:g}", help=HELP.get(name), **bounds,
        **url_state.bound(parameter, url_state.get(parameter)),
    )  # fmt: skip


def in_words(settings: RunSettings, other: RunSettings) -> str:
    """Return what differs from another run: "d_model 32 (64 before)"."""
    return ", ".join(
        f"{name.replace('_', ' ') if name in ('task', 'model') else name} {here} ({there})"
        for name, here, there in settings.differences(other)
    )


def trains() -> bool:
    """Return True if runs can be begun here."""
    return run_owners.pool().n > 0 and bool(offered())
