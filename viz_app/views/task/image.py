"""The classes of an image or a sound, and what the token that answers attends to, over it."""

from typing import Any

from models.trace.outputs import ClassProbabilities, MultiLabelProbabilities
from viz_app.drawing.over_file import over_file
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import file_name
from viz_app.drawing.scale import AUTO, Scale
from viz_app.drawing.stamp import facts, saving
from viz_app.session.current_run import CurrentRun
from viz_app.views.task import text
from viz_app.views.task.reading import (
    DrawnOutput,
    TaskChoices,
    answer_bars,
    check_answer,
    check_row,
    no_row,
    reading_site,
)


def file_answer(
    run: CurrentRun, output: ClassProbabilities | MultiLabelProbabilities, choices: TaskChoices
) -> DrawnOutput:
    """Draw the classes or labels, and one head over the file; return their checks."""
    site, head = reading_site(run.trace, output.stream, choices.focus)
    bars, are_judged = answer_bars(output), isinstance(output, MultiLabelProbabilities)
    reading, arrays = no_row()  # it is drawn over the file
    header: dict[str, Any] = {
        "title": text.LABELS_TITLE if are_judged else text.CLASS_TITLE,
        **saving(file_name(run.trace, "classes"), facts(run.trace)),
        "rows": bars.rows,
        "fact": text.labels_fact(output) if are_judged else text.class_fact(output),
        "reading": reading,
        "segments": [],
        "blocks": [],
    }
    pictures = {"pair": pack(header, **bars.arrays, **arrays)}
    checks = check_answer(output)
    if site is not None:
        over, query = over_file(run.trace, site, head, choices.focus.lock, Scale(AUTO))
        pictures |= over
        checks.append(check_row(site, head, query))
    return pictures, checks
