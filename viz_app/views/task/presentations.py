"""How the page Task presents each type of output: one entry a type. An output of any other type is told in words alone."""

from collections.abc import Callable
from dataclasses import dataclass

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
from viz_app.session.current_run import CurrentRun
from viz_app.views.task import explanation, files, text
from viz_app.views.task.choices import Choices
from viz_app.views.task.classes import class_probabilities
from viz_app.views.task.in_order import in_order
from viz_app.views.task.masked import masked
from viz_app.views.task.next_token import next_token
from viz_app.views.task.pair import choice
from viz_app.views.task.reading import Drawn
from viz_app.views.task.span import span
from viz_app.views.task.token_classes import token_classes

Explain = Callable[[Trace, Output, str], str]


@dataclass(frozen=True)
class Presentation:
    """The picture of an output and its checks, its explanation (of a run, the output and the output of two texts, if the model
    has one), and its numbers as a table to download."""

    picture: Callable[..., Drawn]
    explanation: Explain
    table_label: str
    table: Callable[[CurrentRun, Choices], str]


def _always(sentences: str) -> Explain:
    return lambda trace, output, of_two: sentences


PRESENTATIONS: dict[type, Presentation] = {
    NextToken: Presentation(next_token, _always(text.NEXT), "All positions, CSV", files.next_token_csv),
    MaskedToken: Presentation(masked, explanation.masked, "All guesses, CSV", files.masked_csv),
    ClassProbabilities: Presentation(class_probabilities, explanation.classes, "All classes, CSV", files.classes_csv),
    ChoiceProbabilities: Presentation(choice, _always(text.CHOICE), "All choices, CSV", files.classes_csv),
    TokenClasses: Presentation(token_classes, explanation.token_classes, "All tokens, CSV", files.token_classes_csv),
    Span: Presentation(span, _always(text.SPAN), "The spans, CSV", files.span_csv),
    TokenInOrder: Presentation(in_order, _always(text.IN_ORDER), "The predictions, CSV", files.in_order_csv),
}  # fmt: skip


def presentation(output: Output) -> Presentation | None:
    """Return how an output is presented; None for a type without a picture."""
    return PRESENTATIONS.get(type(output))
