"""What two runs of one input say of the same things: the hidden tokens, the class, or the answer that the first of them found."""

from collections.abc import Callable
from dataclasses import dataclass

from models.trace import Trace
from models.trace.outputs import (
    ChoiceProbabilities,
    ClassProbabilities,
    MaskedToken,
    Output,
    Span,
    TokenClasses,
)


@dataclass(frozen=True)
class OutputComparison:
    """Log-probabilities in nats of the same things in both runs. `what` they are in the singular; "" where there is nothing to
    compare. `guessed` are those of `names` that nobody knows: where [MASK] was typed, it is the first run's own first guess."""

    what: str = ""
    names: tuple[str, ...] = ()
    guessed: tuple[bool, ...] = ()
    before: tuple[float, ...] = ()
    after: tuple[float, ...] = ()


def compare_outputs(before: Trace, after: Trace) -> OutputComparison:
    """Of the first output of a model that does not write that says something."""
    outputs = [
        (output, after.outputs[name])
        for name, output in before.outputs.items()
        if type(output) in _OF
    ]
    found = (_OF[type(one)](before, one, other) for one, other in outputs)
    return next((both for both in found if both.names), OutputComparison())


def _hidden(trace: Trace, before: MaskedToken, after: MaskedToken) -> OutputComparison:
    """The tokens that were hidden; where [MASK] was typed, the most probable one before."""
    row, rows = trace.streams[before.stream], range(len(before.positions))
    guessed = tuple(label is None for label in before.labels)
    tokens = [int(before.logits[i].argmax()) if guessed[i] else before.labels[i] for i in rows]
    names = [
        before.predicted[i] if guessed[i] else row.text[slice(*row.offsets[before.positions[i]])]
        for i in rows
    ]
    both = (
        [float(output.log_probs[i, token]) for i, token in enumerate(tokens)]
        for output in (before, after)
    )
    return OutputComparison("hidden token", tuple(names), guessed, *map(tuple, both))


def _class(trace: Trace, before: ClassProbabilities, after: ClassProbabilities) -> OutputComparison:
    """The most probable class before."""
    best = int(before.logits.argmax())
    both = ((float(output.logits.float().log_softmax(-1)[best]),) for output in (before, after))
    return OutputComparison("class", (before.predicted,), (False,), *both)


def _labels(trace: Trace, before: TokenClasses, after: TokenClasses) -> OutputComparison:
    """The most probable class of each token of the text before."""
    row, best = trace.streams[before.stream], before.logits.argmax(-1)
    typed = [i for i, offset in enumerate(row.offsets) if offset is not None]
    names = tuple(f"{row.tokens[i]}: {before.predicted[i]}" for i in typed)
    both = (tuple(output.log_probs[typed, best[typed]].tolist()) for output in (before, after))
    return OutputComparison("token class", names, (False,) * len(typed), *both)


def _answer(trace: Trace, before: Span, after: Span) -> OutputComparison:
    """Where the answer began and ended before."""
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


_OF: dict[type[Output], Callable[..., OutputComparison]] = {
    MaskedToken: _hidden,
    ClassProbabilities: _class,
    ChoiceProbabilities: _class,
    TokenClasses: _labels,
    Span: _answer,
}
