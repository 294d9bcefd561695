"""Task: what is this model for? A picture of each type of output, and what one head read for it."""

from collections.abc import Sequence

from viz_app.components.catalogue import ANSWERS, CLASSES, GUESSES, IMAGE_MAP, ORDER, PAIR, SPAN
from viz_app.drawing.notes import first_output
from viz_app.drawing.provenance import file_name
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import lock_token, pick_head
from viz_app.session.live import Pictures
from viz_app.views.page import Cell, Columns, File, NextQuestion, Page, Shown, View
from viz_app.views.task import text
from viz_app.views.task.controls import choose, choose_position, choose_run, hide, put_order
from viz_app.views.task.presentations import (
    has_picture,
    no_picture,
    payloads,
    presentation,
    shown_output,
)
from viz_app.views.task.reading import Choices, within


def _layout(run: CurrentRun, choices: Choices, drawn: Pictures) -> Sequence[Cell]:
    """Lay out the components of all types of output; each is shown if it has a picture."""
    at_position = {"on_choose": choose_position}
    if IMAGE_MAP.name in drawn:
        over = Shown(IMAGE_MAP, choose={"on_lock": lock_token, "on_pick": pick_head})
        return [Columns((1, 2), ([Shown(PAIR)], [over]))]
    return [
        Shown(CLASSES, change={"on_choose": choose_run}),
        Shown(GUESSES, change={"on_hide": hide}),
        Shown(PAIR),
        Shown(SPAN),
        Shown(ANSWERS, choose=at_position),
        Shown(ORDER, choose=at_position, change={"on_order": put_order}),
    ]


def _text(run: CurrentRun, choices: Choices) -> str:
    output = shown_output(run.trace, choices)
    return presentation(output).explanation(run.trace, output, run.scope.model.of_two)


def _files(run: CurrentRun, choices: Choices) -> Sequence[File]:
    shown = presentation(shown_output(run.trace, choices))
    name = f"{file_name(run.trace, 'task')}.csv"
    return [File(shown.table_label, lambda now: shown.table(now, choices), name)]


def _find(run: CurrentRun) -> View[Choices] | str:
    if has_picture(run.trace):
        return OUTPUTS
    return no_picture(run.trace, first_output(run.trace))


OUTPUTS = View(payloads, _layout, choose=choose, within=within, text=_text, files=_files)
TASK = Page(
    "Task",
    text.QUESTION,
    lambda run: text.purpose(first_output(run.trace), run.scope.training, run.scope.config),
    {"": _find},
    lambda run, choices: NextQuestion("Which tokens did it attend to?", "attention"),
)
