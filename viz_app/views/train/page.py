"""Train: a small model is trained while its attention is watched."""

from collections.abc import Sequence

from viz_app.controls.train import text
from viz_app.controls.train.buttons import buttons
from viz_app.controls.train.form import trains
from viz_app.controls.train.watching import watch
from viz_app.session import run_owners
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.page import Cell, Foot, NextQuestion, Page, Prose, View, Widget


def _payloads(run: CurrentRun, choices: None) -> Pictures:
    return {}


def _layout(run: CurrentRun, choices: None, drawn: Pictures) -> Sequence[Cell]:
    if not trains() and run_owners.watched() is None:
        return [Prose(text.OFF), Foot()]
    return [Widget(buttons), Widget(watch), Foot()]


RUNS = View(
    _payloads,
    _layout,
    text=lambda run, choices: text.HOW,
    trained=lambda run: "",
    is_live=lambda choices: False,
    has_strip=False,
    is_of_run=False,
)
TRAIN = Page(
    "Train",
    text.QUESTION,
    lambda run: text.ANSWER,
    {"": lambda run: RUNS},
    lambda run, choices: NextQuestion(
        f"Which tokens does {run.scope.name} attend to?", "attention"
    ),
    shows_changes=False,
)
