"""Task: what is this model trained to do? A picture of each type of output, and a head's row."""

from collections.abc import Sequence

from viz_app.components.catalogue import (
    ANSWERS,
    CLASS_PROBABILITIES,
    GUESSES,
    IMAGE_MAP,
    ORDER,
    PAIR,
    SOUND_MAP,
    SPAN,
)
from viz_app.drawing.notes import first_output
from viz_app.drawing.provenance import file_name
from viz_app.session.current_run import CurrentRun
from viz_app.session.focus import lock_token, pick_head
from viz_app.session.live import Pictures
from viz_app.views import onward
from viz_app.views.page import Columns, File, Page, PageCell, ShownComponent, View
from viz_app.views.task import text
from viz_app.views.task.controls import (
    choose_position,
    choose_query,
    choose_run,
    choose_task_view,
    hide,
    put_order,
)
from viz_app.views.task.presentations import (
    has_picture,
    no_picture,
    presentation,
    shown_output,
    task_payloads,
)
from viz_app.views.task.reading import TaskChoices, task_choices_within


def _layout(run: CurrentRun, choices: TaskChoices, pictures: Pictures) -> Sequence[PageCell]:
    """Lay out the components of all types of output; each is shown if it has a picture."""
    at_position = {"on_choose": choose_position}
    for component in (IMAGE_MAP, SOUND_MAP):
        if component.name not in pictures:
            continue
        if ANSWERS.name in pictures:
            over = {"on_lock": choose_query, "on_pick": pick_head}
            answers = ShownComponent(ANSWERS, choose=at_position)
            return [Columns((1.2, 1), ([answers], [ShownComponent(component, choose=over)]))]
        over = {"on_lock": lock_token, "on_pick": pick_head}
        answers = ShownComponent(PAIR)
        return [Columns((1, 2), ([answers], [ShownComponent(component, choose=over)]))]
    return [
        ShownComponent(CLASS_PROBABILITIES, change={"on_choose": choose_run}),
        ShownComponent(GUESSES, change={"on_hide": hide}),
        ShownComponent(PAIR),
        ShownComponent(SPAN),
        ShownComponent(ANSWERS, choose=at_position),
        ShownComponent(ORDER, choose=at_position, change={"on_order": put_order}),
    ]


def _text(run: CurrentRun, choices: TaskChoices) -> str:
    output = shown_output(run.trace, choices)
    return presentation(output).explanation(run.trace, output, run.scope.model.pair_output)


def _files(run: CurrentRun, choices: TaskChoices) -> Sequence[File]:
    presented = presentation(shown_output(run.trace, choices))
    name = f"{file_name(run.trace, 'task')}.csv"
    return [File(presented.table_label, lambda now: presented.table(now, choices), name)]


def _find(run: CurrentRun) -> View[TaskChoices] | str:
    if has_picture(run.trace):
        return OUTPUTS
    return no_picture(run.trace, first_output(run.trace))


OUTPUTS = View(
    task_payloads,
    _layout,
    choose=choose_task_view,
    within=task_choices_within,
    text=_text,
    files=_files,
)
TASK_PAGE = Page(
    "Task",
    text.TASK_QUESTION,
    lambda run: text.purpose_and_score(
        first_output(run.trace), run.scope.training, run.scope.config
    ),
    {"": _find},
    lambda run, choices: onward.what_it_reads(run),
)
