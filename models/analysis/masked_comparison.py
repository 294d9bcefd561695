"""What a model does under changed masks, to be held against what it does under its own."""

from collections.abc import Sequence
from dataclasses import dataclass

from models import decoding
from models.scope import Scope
from models.tokenizers.base import END, PAD, Encoding
from models.trace import Trace
from models.trace.edits import MaskChanges


@dataclass(frozen=True)
class MaskedRun:
    """One pair under some masks: what it attends to, what it says of the target, and what it writes.

    `log_probs` are in nats, of y₁ … yₘ </s>, all positions at once: each given the target before it, and whatever else
    of the target the masks let through. `output` is written greedily under the same masks, one token after the other,
    so that nothing lies ahead to be seen."""

    trace: Trace
    labels: tuple[int, ...]
    log_probs: tuple[float, ...]
    output: str
    output_ids: tuple[int, ...]

    @property
    def log_prob(self) -> float:
        """Of the whole target with its </s>, in nats."""
        return sum(self.log_probs)


def run_masked(
    scope: Scope,
    pairs: Sequence[tuple[str, str | Encoding | None]],
    changes: MaskChanges | None = None,
    drafts: Sequence[Sequence[int]] = (),
) -> list[MaskedRun]:
    """The pairs in one padded batch, one result each. A missing target is what the model writes under its own masks;
    a target may be one encoded before. `drafts` and errors as in `Scope.run_batch`."""
    traces = scope.run_batch(pairs, changes=changes, drafts=drafts)
    n = max(len(trace.source.ids) for trace in traces)
    return [_masked_run(scope, trace, n, changes) for trace in traces]


def _masked_run(scope: Scope, trace: Trace, n_source: int, changes: MaskChanges | None) -> MaskedRun:
    labels = (*trace.target.ids[1:], END)
    log_probs = trace.logits.log_softmax(-1)[range(len(labels)), labels]
    padded = [*trace.source.ids, *[PAD] * (n_source - len(trace.source.ids))]
    limit = decoding.longest(scope.model, len(trace.source.ids))
    steps = decoding.greedy(scope.model, padded, max_new=limit, changes=changes, drafts=[trace.target.ids[1:]])
    output = tuple(step.token for step in steps)
    return MaskedRun(trace, labels, tuple(log_probs.tolist()), scope.tokenizer.decode(output), output)
