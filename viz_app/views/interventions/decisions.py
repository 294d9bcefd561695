"""The decisions in an answer: each row of logits, and the option whose probability is followed."""

from collections.abc import Callable
from dataclasses import dataclass

from models.analysis.metrics import logits_of
from models.tokenizers.base import Encoding
from models.trace import Trace
from models.trace.outputs import (
    ChoiceProbabilities,
    ClassProbabilities,
    MaskedToken,
    MultiLabelProbabilities,
    NextToken,
    Output,
    Span,
    TokenClasses,
    TokenInOrder,
    first_choices,
)
from viz_app.drawing.labels import (
    Label,
    answer_labels,
    labels,
    token_label,
    token_text,
    written_labels,
)
from viz_app.drawing.notes import first_output


@dataclass(frozen=True)
class Decision:
    """One row of the logits of an answer, and the option that is followed there."""

    row: int
    option: int
    label: Label


def decisions(trace: Trace) -> list[Decision]:
    """Return the decisions of the model's main answer; none if it has no probabilities."""
    output = first_output(trace)
    make = next((make for kind, make in _DECISIONS.items() if isinstance(output, kind)), None)
    return make(trace, output) if make else []


def default_decision(trace: Trace, decisions: list[Decision]) -> int:
    """Return the decision to begin with, as an index.

    It is the token that continues a text; otherwise the word that the model is least sure of, since
    changes show there first.
    """
    output = first_output(trace)
    if isinstance(output, NextToken) and not output.is_closed:
        return len(decisions) - 1
    log_probs = logits_of(trace.outputs).log_softmax(-1)
    confidence = [float(log_probs[one.row, one.option]) for one in decisions]
    ordinary = [
        i
        for i, one in enumerate(decisions)
        if not one.label.special and any(c.isalnum() for c in one.label.text)
    ]
    return min(ordinary or range(len(decisions)), key=confidence.__getitem__)


def option_noun(trace: Trace) -> str:
    """Return the noun for an option of the main answer."""
    output = first_output(trace)
    if isinstance(output, ChoiceProbabilities):
        return "choice"
    if isinstance(output, ClassProbabilities | TokenClasses):
        return "class"
    return "answer" if isinstance(output, MultiLabelProbabilities) else "token"


def decision_words(trace: Trace) -> list[str]:
    """Return the words of the main answer of a model that does not write."""
    output = first_output(trace)
    if isinstance(output, Span):
        return output.text.split(" ")
    if isinstance(output, MultiLabelProbabilities):
        return list(output.holding)
    names = getattr(output, "predicted", ())
    return [names] if isinstance(names, str) else [token_text(name) for name in names]


def option_label(trace: Trace, option: int, row: int) -> Label:
    """Return the label of an option in a row of the main answer's logits."""
    output = first_output(trace)
    if isinstance(output, Span):
        return labels(trace.streams[output.stream])[option]
    if isinstance(output, MultiLabelProbabilities):
        return Label(output.option_name(row, option == 1))
    names = getattr(output, "names", None)
    if names:
        return Label(names[option])
    is_first = isinstance(output, NextToken) and row == 0 and _begins(trace.streams[output.stream])
    return token_label(trace.model.tokenizer, option, first=is_first)


def _begins(row: Encoding) -> bool:
    """Return True if the second token of a row is the first of its text."""
    return bool(row.offsets) and row.offsets[0] is None


def _next_tokens(trace: Trace, output: NextToken) -> list[Decision]:
    names = written_labels(trace.streams[output.stream], output.is_closed)
    decisions = [
        Decision(i, token, label)
        for i, (token, label) in enumerate(zip(output.labels, names, strict=False))
    ]
    if output.is_closed:
        return decisions
    best = int(output.logits[-1].argmax())
    return [
        *decisions,
        Decision(len(output.logits) - 1, best, token_label(trace.model.tokenizer, best)),
    ]


def _masked(trace: Trace, output: MaskedToken) -> list[Decision]:
    best = first_choices(output.logits) if output.positions else []
    tokens = [
        guess if label is None else label for label, guess in zip(output.labels, best, strict=True)
    ]
    return [
        Decision(i, token, token_label(trace.model.tokenizer, token))
        for i, token in enumerate(tokens)
    ]


def _in_order(trace: Trace, output: TokenInOrder) -> list[Decision]:
    names = labels(trace.streams[output.stream])
    return [
        Decision(i, token, label)
        for i, (token, label) in enumerate(zip(output.labels, names, strict=True))
    ]


def _class(trace: Trace, output: ClassProbabilities) -> list[Decision]:
    return [Decision(0, int(output.logits.argmax()), Label(output.predicted))]


def _judged(trace: Trace, output: MultiLabelProbabilities) -> list[Decision]:
    best = first_choices(output.logits)
    labels = enumerate(zip(best, output.likelier, strict=True))
    return [Decision(i, option, Label(name)) for i, (option, name) in labels]


def _classes(trace: Trace, output: TokenClasses) -> list[Decision]:
    """Return the decisions that are read from a token: no change reaches a part after the last."""
    names = answer_labels(trace, output)
    return [
        Decision(i, best, Label(f"{label.text}: {output.names[best]}"))
        for i, (best, label) in enumerate(zip(first_choices(output.logits), names, strict=True))
        if output.source(i) is not None
    ]


def _span(trace: Trace, output: Span) -> list[Decision]:
    """Return the start and the end of the answer; each need not be the most probable alone."""
    names = labels(trace.streams[output.stream])
    return [
        Decision(row, option, Label(f"{end} at {names[option].text}"))
        for row, (end, option) in enumerate((("start", output.start), ("end", output.end)))
    ]


_DECISIONS: dict[type[Output], Callable[..., list[Decision]]] = {
    NextToken: _next_tokens,
    MaskedToken: _masked,
    TokenInOrder: _in_order,
    ClassProbabilities: _class,
    MultiLabelProbabilities: _judged,
    TokenClasses: _classes,
    Span: _span,
}
