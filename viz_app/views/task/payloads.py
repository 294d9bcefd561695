"""What the page Task shows of a run: a picture for each of its outputs, which follows from the output's type."""

from models.trace import Trace
from viz_app.drawing.notes import check_rows, first_output, strip
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.task.choices import Choices
from viz_app.views.task.pair import waiting
from viz_app.views.task.presentations import presentation


def has_picture(trace: Trace) -> bool:
    """Return True if there is a picture of what the model answers."""
    return presentation(first_output(trace)) is not None


def payloads(run: CurrentRun, choices: Choices) -> Pictures:
    """All that the page's components show of a run."""
    pictures, checks = {"written": strip(run.trace, run.terms, run.stale)}, []
    for output in run.trace.outputs.values():
        if (presented := presentation(output)) is not None:
            drawn, held = presented.picture(run, output, choices)
            pictures |= drawn
            checks += held
    if run.scope.model.of_two and run.scope.model.of_two not in run.trace.outputs:
        pictures["pair"] = waiting()
    return {**pictures, "checks": check_rows(checks)}
