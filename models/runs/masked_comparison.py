"""What a model does under changed masks, to be held against what it does under its own."""

from collections.abc import Sequence
from dataclasses import dataclass

from models import decoding
from models.runs.scope import Scope, Texts
from models.trace import Trace
from models.trace.edits import Edit


@dataclass(frozen=True)
class MaskedRun:
    """One input under some masks: what it attends to, what it says of the text it is given, and what it writes.

    `log_probs` are in nats, of y₁ … yₘ </s> (a language model's: of its text from the second token on), all positions at
    once: each given the row before it, and whatever else of it the masks let through. `output` is written greedily under the
    same masks, one token after the other, so that nothing lies ahead to be seen; None where nothing was written to be compared. A
    model that does not write says nothing of its text, and `output` is its answer."""

    trace: Trace
    labels: tuple[int, ...]
    log_probs: tuple[float, ...]
    output: str | None
    output_ids: tuple[int, ...]

    @property
    def log_prob(self) -> float:
        """Of the whole row, in nats."""
        return sum(self.log_probs)


def run_masked(
    scope: Scope,
    requests: Sequence[Texts],
    edits: Sequence[Edit] = (),
    written: Sequence[Sequence[int]] = (),
    most: int | None = None,
) -> list[MaskedRun]:
    """The inputs in one padded batch, one result each. What is missing of the stream that the model writes, it writes under
    its own masks first. `most` is how many tokens it may write to be compared; by default as many as the model says. `written`
    and errors as in `Scope.run_batch`."""
    traces = scope.run_batch(requests, edits=edits, written=written)
    if not scope.model.can_write:
        return [MaskedRun(trace, (), (), trace.output, ()) for trace in traces]
    given = scope.model.fields[0].stream
    n = max(len(trace.streams[given].ids) for trace in traces)
    return [_masked_run(scope, trace, n, most) for trace in traces]


def unmasked(scope: Scope, trace: Trace, most: int | None = None) -> MaskedRun:
    """`run_masked` without edits for a run that is already there: no second pass, and nothing written twice."""
    if not scope.model.can_write:
        return MaskedRun(trace, (), (), trace.output, ())
    n = len(trace.streams[scope.model.fields[0].stream].ids)
    return _masked_run(scope, trace, n, most)


def _masked_run(scope: Scope, trace: Trace, n_given: int, most: int | None) -> MaskedRun:
    model, config = scope.model, scope.config
    given, row = trace.streams[model.fields[0].stream].ids, trace.streams[model.writes].ids
    labels = trace.next_token.labels
    log_probs = trace.next_token.log_probs[range(len(labels)), labels]
    room = model.longest(len(given)) if most is None else min(most, model.longest(len(given)))
    if not (trace.edits or trace.teacher_forced or model.continues):  # the row is what it writes
        output = labels[:room]
    elif room:
        draft, padding = (
            ((), ()) if model.continues else (row[1:], (config.pad_id,) * (n_given - len(given)))
        )
        how = {"max_new": room, "edits": trace.edits, "drafts": [draft]}
        steps = decoding.greedy(model, (*given, *padding), **how)
        output = tuple(step.token for step in steps)
    else:
        output = ()
    return MaskedRun(
        trace, labels, tuple(log_probs.tolist()), scope.tokenizer.decode(output), output
    )
