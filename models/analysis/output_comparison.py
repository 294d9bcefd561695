"""Comparison of two runs on one input: hidden tokens, class, or answer span."""

from collections.abc import Callable
from dataclasses import dataclass

from models.trace import Trace
from models.trace.outputs import (
    ChoiceProbabilities,
    ClassProbabilities,
    MaskedToken,
    MultiLabelProbabilities,
    Output,
    Span,
    TokenClasses,
)


@dataclass(frozen=True)
class OutputComparison:
    """Log-probabilities in nats of the same items in both runs.

    `what` names an item in the singular; "" if nothing can be compared. `guessed` marks the `names`
    without a reference: for a typed [MASK], the name is the first run's own first guess.
    """

    what: str = ""
    names: tuple[str, ...] = ()
    guessed: tuple[bool, ...] = ()
    before: tuple[float, ...] = ()
    after: tuple[float, ...] = ()


def compare_outputs(before: Trace, after: Trace) -> OutputComparison:
    """Compare the first comparable output of a model that does not generate."""
    outputs = [
        (output, after.outputs[name])
        for name, output in before.outputs.items()
        if type(output) in _COMPARISONS
    ]
    comparisons = (_COMPARISONS[type(one)](before, one, other) for one, other in outputs)
    return next((comparison for comparison in comparisons if comparison.names), OutputComparison())


def _hidden(trace: Trace, before: MaskedToken, after: MaskedToken) -> OutputComparison:
    """Compare the hidden tokens; for a typed [MASK], the most probable one before."""
    row = trace.streams[before.stream]
    guessed = tuple(label is None for label in before.labels)
    tokens = [
        int(before.logits[i].argmax()) if label is None else label
        for i, label in enumerate(before.labels)
    ]
    spans = [row.offsets[position] for position in before.positions]
    names = [
        before.predicted[i] if guessed[i] or span is None else row.text[slice(*span)]
        for i, span in enumerate(spans)
    ]
    both = (
        [float(output.log_probs[i, token]) for i, token in enumerate(tokens)]
        for output in (before, after)
    )
    return OutputComparison("hidden token", tuple(names), guessed, *map(tuple, both))


def _class(trace: Trace, before: ClassProbabilities, after: ClassProbabilities) -> OutputComparison:
    """Compare the class that was most probable before."""
    best = int(before.logits.argmax())
    both = ((float(output.logits.float().log_softmax(-1)[best]),) for output in (before, after))
    return OutputComparison("class", (before.predicted,), (False,), *both)


def _compare_labels(
    trace: Trace, before: MultiLabelProbabilities, after: MultiLabelProbabilities
) -> OutputComparison:
    """Compare whether each label holds, as it more probably did before."""
    best = before.logits.argmax(-1, keepdim=True)
    both = (
        tuple(output.logits.float().log_softmax(-1).gather(1, best)[:, 0].tolist())
        for output in (before, after)
    )
    return OutputComparison("label", before.likelier, (False,) * len(best), *both)


def _labels(trace: Trace, before: TokenClasses, after: TokenClasses) -> OutputComparison:
    """Compare the class of each token that was most probable before."""
    row, best = trace.streams[before.stream], before.logits.argmax(-1)
    places = [i for i, offset in enumerate(row.offsets) if offset is not None]
    names = tuple(f"{row.tokens[i]}: {before.predicted[i]}" for i in places)
    both = (tuple(output.log_probs[places, best[places]].tolist()) for output in (before, after))
    return OutputComparison("token class", names, (False,) * len(places), *both)


def _answer(trace: Trace, before: Span, after: Span) -> OutputComparison:
    """Compare the start and end that the answer had before."""
    names = tuple(
        f"{edge}: {trace.streams[before.stream].tokens[i]}"
        for edge, i in (("start", before.start), ("end", before.end))
    )
    both = []
    for output in (before, after):
        start, end = (
            logits.float().log_softmax(-1) for logits in (output.start_logits, output.end_logits)
        )
        both.append((float(start[before.start]), float(end[before.end])))
    return OutputComparison("answer", names, (False, False), *both)


_COMPARISONS: dict[type[Output], Callable[..., OutputComparison]] = {
    MaskedToken: _hidden,
    ClassProbabilities: _class,
    ChoiceProbabilities: _class,
    MultiLabelProbabilities: _compare_labels,
    TokenClasses: _labels,
    Span: _answer,
}
