"""Train: a small model is trained while its attention is watched."""

from collections.abc import Sequence

from viz_app.controls.train import text
from viz_app.controls.train.buttons import training_buttons
from viz_app.controls.train.form import trains
from viz_app.controls.train.watching import watch_runs
from viz_app.session import run_owners
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views import onward
from viz_app.views.page import Foot, Page, PageCell, Prose, View, Widget


def _payloads(run: CurrentRun, choices: None) -> Pictures:
    return {}


def _layout(run: CurrentRun, choices: None, pictures: Pictures) -> Sequence[PageCell]:
    if not trains() and run_owners.watched_run() is None:
        return [Prose(text.OFF), Foot()]
    return [Widget(training_buttons), Widget(watch_runs), Foot()]


RUNS = View(
    _payloads,
    _layout,
    text=lambda run, choices: text.TRAIN_HELP,
    trained=lambda run: "",
    is_live=lambda choices: False,
    has_strip=False,
    is_of_run=False,
)
TRAIN_PAGE = Page(
    "Train",
    text.TRAIN_QUESTION,
    lambda run: text.TRAIN_ANSWER,
    {"": lambda run: RUNS},
    lambda run, choices: onward.what_it_reads(run, run.scope.name),
    shows_changes=False,
)
