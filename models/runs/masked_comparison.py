"""Runs under changed masks, for comparison with the model's own."""

from collections.abc import Sequence
from dataclasses import dataclass

from models import decoding
from models.runs.scope import Scope, Texts
from models.trace import Trace
from models.trace.edits import Edit


@dataclass(frozen=True)
class MaskedRun:
    """One run under some masks, with its likelihood and the text generated under them.

    `log_probs` are in nats, of y₁ … yₘ </s> (for a language model: of its text from the second
    token on), each given the row before it and all else that the masks allow. `output` is generated
    greedily under the same masks, token by token, so that there are no later tokens to see; None if
    nothing was generated. For a model that does not generate text it is the answer, and there are
    no `log_probs`.
    """

    trace: Trace
    labels: tuple[int, ...]
    log_probs: tuple[float, ...]
    output: str | None
    output_ids: tuple[int, ...]

    @property
    def log_prob(self) -> float:
        """Log-probability of the whole row, in nats."""
        return sum(self.log_probs)


def run_masked(
    scope: Scope,
    requests: Sequence[Texts],
    edits: Sequence[Edit] = (),
    generated_tokens: Sequence[Sequence[int]] = (),
    max_new: int | None = None,
) -> list[MaskedRun]:
    """Run inputs in one padded batch under edits; return one result each.

    A missing target is generated under the model's own masks first. At most `max_new` tokens are
    generated for comparison, by default as many as the model can. `generated_tokens` and the errors
    are those of `Scope.run_batch`.
    """
    traces = scope.run_batch(requests, edits=edits, generated_tokens=generated_tokens)
    if not scope.model.can_write:
        return [MaskedRun(trace, (), (), trace.output, ()) for trace in traces]
    stream = scope.model.fields[0].stream
    n = max(len(trace.streams[stream].ids) for trace in traces)
    return [_masked_run(scope, trace, n, max_new) for trace in traces]


def run_unmasked(scope: Scope, trace: Trace, max_new: int | None = None) -> MaskedRun:
    """Return what `run_masked` returns without edits, from an existing trace."""
    if not scope.model.can_write:
        return MaskedRun(trace, (), (), trace.output, ())
    n = len(trace.streams[scope.model.fields[0].stream].ids)
    return _masked_run(scope, trace, n, max_new)


def _masked_run(scope: Scope, trace: Trace, n_longest: int, max_new: int | None) -> MaskedRun:
    model, config = scope.model, scope.config
    input_ids, row = trace.streams[model.fields[0].stream].ids, trace.streams[model.writes].ids
    labels = trace.next_token.labels
    log_probs = trace.next_token.log_probs[range(len(labels)), labels]
    room = (
        model.max_new_tokens(len(input_ids))
        if max_new is None
        else min(max_new, model.max_new_tokens(len(input_ids)))
    )
    if not (trace.edits or trace.teacher_forced or model.continues):  # the row is generated text
        output = labels[:room]
    elif room:
        draft, padding = (
            ((), ())
            if model.continues
            else (row[1:], (config.pad_id,) * (n_longest - len(input_ids)))
        )
        options = {"max_new": room, "edits": trace.edits, "draft_tokens": [draft]}
        padded = (*input_ids, *padding) if padding else input_ids
        steps = decoding.greedy(model, padded, **options)
        output = tuple(step.token for step in steps)
    else:
        output = ()
    return MaskedRun(
        trace, labels, tuple(log_probs.tolist()), scope.tokenizer.decode(output), output
    )
