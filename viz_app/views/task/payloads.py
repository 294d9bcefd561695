"""What the page Task shows of a run: a picture for each of its outputs, which follows from the output's type."""

from collections.abc import Callable

from models.trace import Trace
from models.trace.outputs import (
    ChoiceProbabilities,
    ClassProbabilities,
    MaskedToken,
    NextToken,
    Output,
    Span,
    TokenClasses,
    TokenInOrder,
)
from viz_app.drawing.notes import check_rows, first_output, strip
from viz_app.session.current_run import CurrentRun
from viz_app.session.live import Pictures
from viz_app.views.task.choices import Choices
from viz_app.views.task.classes import class_probabilities
from viz_app.views.task.in_order import in_order
from viz_app.views.task.masked import masked
from viz_app.views.task.next_token import next_token
from viz_app.views.task.pair import choice, waiting
from viz_app.views.task.reading import Drawn
from viz_app.views.task.span import span
from viz_app.views.task.token_classes import token_classes

PICTURES: dict[type[Output], Callable[..., Drawn]] = {
    NextToken: next_token, MaskedToken: masked, ClassProbabilities: class_probabilities, Span: span, TokenInOrder: in_order,
    ChoiceProbabilities: choice, TokenClasses: token_classes,
}  # fmt: skip


def has_picture(trace: Trace) -> bool:
    """Whether there is a picture of what the model answers."""
    return type(first_output(trace)) in PICTURES


def payloads(run: CurrentRun, choices: Choices) -> Pictures:
    """All that the page's components show of a run."""
    pictures, checks = {"written": strip(run.trace, run.terms, run.stale)}, []
    for output in run.trace.outputs.values():
        drawn, held = PICTURES[type(output)](run, output, choices)
        pictures |= drawn
        checks += held
    if run.scope.model.of_two and run.scope.model.of_two not in run.trace.outputs:
        pictures["pair"] = waiting()
    return {**pictures, "checks": check_rows(checks)}
