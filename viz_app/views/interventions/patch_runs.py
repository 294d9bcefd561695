"""The two runs of the section Patch: this one and another, and how their positions correspond."""

from dataclasses import dataclass, replace
from functools import cached_property

from models import InputError, Scope
from models.analysis.metrics import LogitDifference, LogProbability, logits_of
from models.architectures.base import FILE_FIELDS, TEXT_FIELD, Field
from models.runs.inputs import FieldInput
from models.tokenizers.base import Encoding
from models.trace import Trace
from models.trace.edits import Edit, Edits, Patch, Where
from models.trace.outputs import (
    ClassProbabilities,
    MaskedToken,
    MultiLabelProbabilities,
    NextToken,
    Span,
    TokenClasses,
)
from viz_app.drawing.notes import first_output
from viz_app.session import cache
from viz_app.session.current_run import CurrentRun
from viz_app.views.interventions import patch_text as say
from viz_app.views.interventions.decisions import (
    Decision,
    decisions,
    default_decision,
    option_label,
)
from viz_app.views.interventions.text import noun_of

AlignedPairs = tuple[tuple[int, int], ...]  # (position in this run, position in the other)
NECESSARY, SUFFICIENT = SIDES = ("needed", "enough")


def second_fields(scope: Scope, trace: Trace) -> list[Field]:
    """Return the fields for which the other run reads something else.

    They are those of this run that have a file or a text, without the one that a translation reads
    as its target: both runs read the same, so that only the source differs.
    """
    model = scope.model
    return [
        one
        for one in model.fields
        if one.kind in (TEXT_FIELD, *FILE_FIELDS)
        and (not one.optional or trace.fields.get(one.name))
        and not (model.translates and one.stream == model.writes)
    ]


@dataclass(frozen=True)
class UneditedRun:
    """One of the two runs without edits, and what a patch takes from it."""

    scope: Scope
    trace: Trace

    @property
    def patched_from(self) -> tuple[str | tuple[int, ...] | None, ...]:
        """The fields of a patch that takes from this run.

        A translation reads the target of the run patched.
        """
        values = [tuple(v) if isinstance(v, list) else v for v in self.trace.fields.values()]
        if self.scope.model.translates:
            return (values[0], None)
        return tuple(values)

    def with_edits(self, edits: Edits) -> Trace:
        """Return this run under edits, on the tokens that it read.

        Raises:
            CheckpointError: the model cannot carry out an edit.
        """
        return cache.edited_trace(self.scope, self.trace, edits) if edits else self.trace


@dataclass(frozen=True)
class Two:
    """This run and the other, both without edits, and the decision in which they are compared.

    `rows` holds for each decision its row in the other run's logits; None where there is none.
    """

    this: UneditedRun
    other: UneditedRun
    all: list[Decision]
    rows: list[int | None]
    chosen: int

    @property
    def decision(self) -> Decision:
        return self.all[self.chosen]

    @property
    def noun(self) -> str:
        """The kind of input that both runs read: "text", "image" or "sound"."""
        return noun_of(self.this.scope.model)

    def noun_at(self, stream: str) -> str:
        """Return the kind of input of a stream: that of the runs, or the text that they write."""
        return self.noun if stream == self.this.scope.model.fields[0].stream else "text"

    @property
    def row(self) -> int:
        """The row of this run's logits that decides."""
        return self.decision.row

    @property
    def other_row(self) -> int:
        """The row of the other run's logits that decides."""
        return self.rows[self.chosen] or 0

    @cached_property
    def rival(self) -> int | None:
        """The other run's answer at the decision, as an option of the other run.

        It is None if both give the same, if this run's decision is not its most probable option, or
        if a span ends at a token that this text lacks.
        """
        ours, theirs = (
            int(logits_of(run.trace.outputs)[row].argmax())
            for run, row in ((self.this, self.row), (self.other, self.other_row))
        )
        here = self.here(theirs)
        return theirs if ours == self.decision.option and here not in (ours, None) else None

    @property
    def rival_name(self) -> str:
        return (
            ""
            if self.rival is None
            else option_label(self.other.trace, self.rival, self.other_row).text
        )

    def here(self, option: int) -> int | None:
        """Return an option of the other run's answer as one of this run's."""
        return _option(self.other.trace, self.this.trace, option)

    def there(self, option: int) -> int | None:
        """Return an option of this run's answer as one of the other run's."""
        return _option(self.this.trace, self.other.trace, option)

    def metric(self, side: str) -> LogitDifference | LogProbability:
        """Return what is measured in the run that is patched."""
        option, rival, row = self.decision.option, self.rival, self.row
        if side == NECESSARY:
            rival = None if rival is None else self.here(rival)
        else:
            option, row = self.there(option) or 0, self.other_row
        return LogProbability(option, row) if rival is None else LogitDifference(option, rival, row)

    @cached_property
    def gap(self) -> float:
        """The measured number in this run minus that in the other."""
        one, two = (
            level(self.metric(side), run.trace)
            for side, run in ((NECESSARY, self.this), (SUFFICIENT, self.other))
        )
        return one - two

    def sides(self, side: str) -> tuple[UneditedRun, UneditedRun]:
        """Return the run that is patched and the one that is taken from."""
        return (self.this, self.other) if side == NECESSARY else (self.other, self.this)

    def pairs(self, side: str, stream: str) -> AlignedPairs:
        """Return the alignment of a stream for the patched run; () if both have as many tokens."""
        base, source = self.sides(side)
        return alignment(base.trace, source.trace, stream)

    def patch(self, side: str, where: Where) -> Edit:
        """Return the patch of a head or a cell."""
        base, source = self.sides(side)
        stream = _stream(base.trace, where)
        pairs = self.pairs(side, stream)
        if where.queries is not None:
            pairs = tuple(pair for pair in pairs if pair[0] in where.queries)
        return Patch(where, fields=source.patched_from, alignment=pairs)


def _stream(trace: Trace, where: Where) -> str:
    if where.activation is not None:
        return trace.activations[where.activation].axes[1]
    return trace.attention[where.site or ""].query_stream


def level(metric: LogitDifference | LogProbability, trace: Trace) -> float:
    """Return the number whose change the metric measures."""
    row = logits_of(trace.outputs)[metric.position].float()
    if isinstance(metric, LogitDifference):
        return float(row[metric.token] - row[metric.other])
    return float(row.log_softmax(-1)[metric.token])


def reads_same(row: Encoding, other: Encoding) -> bool:
    """Return True if a model reads the same in both rows: the same tokens and the same numbers."""
    digest, other_digest = (getattr(one, "digest", "") for one in (row, other))
    return row.ids == other.ids and digest == other_digest


def alignment(run: Trace, other: Trace, stream: str) -> AlignedPairs:
    """Return the positions of two texts' common beginning and end; () if both are of one length."""
    ours, theirs = run.streams[stream].ids, other.streams[stream].ids
    if len(ours) == len(theirs):
        return ()
    shorter = min(len(ours), len(theirs))
    first = next((i for i in range(shorter) if ours[i] != theirs[i]), shorter)
    last = next(
        (i for i in range(shorter - first) if ours[-1 - i] != theirs[-1 - i]), shorter - first
    )
    return (
        *((i, i) for i in range(first)),
        *((len(ours) - i, len(theirs) - i) for i in range(last, 0, -1)),
    )


def two_runs(run: CurrentRun, second: tuple[str, ...], position: int | None) -> Two | str:
    """Return both runs, or why they cannot be compared."""
    spec = replace(run.spec, edits=(), forced=())
    base = cache.changed_run(run.unchanged, spec)
    scope, trace = base.scope, base.trace
    noun = noun_of(scope.model)
    if not all(text.strip() for text in second):
        return say.EMPTY
    try:
        other = cache.given_trace(scope, *_values(scope, trace, second))
    except InputError as error:
        return say.unreadable_second(str(error))
    if trace.streams.keys() == other.streams.keys() and all(
        reads_same(row, other.streams[name]) for name, row in trace.streams.items()
    ):
        return say.same_inputs(noun)
    for stream, row in trace.streams.items():
        n, m = len(row.ids), len(other.streams[stream].ids) if stream in other.streams else 0
        if n != m and not alignment(trace, other, stream):
            return say.counts(n, m, noun)
    all_decisions = decisions(trace)
    rows = [
        None if _option(trace, other, one.option) is None else _other_row(trace, other, one.row)
        for one in all_decisions
    ]
    if not all_decisions or all(row is None for row in rows):
        return say.NO_COUNTERPART if isinstance(first_output(trace), Span) else say.NO_DECISION
    chosen = _usual(trace, other, all_decisions, rows)
    if position is not None and position < len(all_decisions) and rows[position] is not None:
        chosen = position
    return Two(UneditedRun(scope, trace), UneditedRun(scope, other), all_decisions, rows, chosen)


def _values(scope: Scope, trace: Trace, second: tuple[str, ...]) -> list[FieldInput | None]:
    """Return the values of all fields: the second text, and what else this run read."""
    if scope.model.translates:
        return [*second, trace.streams[scope.model.writes]]
    texts = {one.name: text for one, text in zip(second_fields(scope, trace), second, strict=False)}
    return [texts.get(name, value) for name, value in trace.fields.items()]


def _option(run: Trace, other: Trace, option: int) -> int | None:
    """Return an option of one run's answer as one of the other's; None if it has none.

    The options of a span are positions; all others are the same in both runs.
    """
    output = first_output(run)
    pairs = alignment(run, other, output.stream) if isinstance(output, Span) else ()
    return dict(pairs).get(option) if pairs else option


def _other_row(trace: Trace, other: Trace, row: int) -> int | None:
    """Return the row of the other run's logits that answers the same question, or None."""
    output, other_output = first_output(trace), first_output(other)
    n = len(logits_of(other.outputs))
    if isinstance(output, ClassProbabilities):
        return 0
    if isinstance(output, MaskedToken | Span | MultiLabelProbabilities):
        n_ours = len(logits_of(trace.outputs))
        return row if n == n_ours else None
    stream = getattr(output, "stream", None)
    if stream is None or getattr(other_output, "stream", None) != stream:
        return None
    if isinstance(output, NextToken) and row == len(output.logits) - 1:
        return n - 1
    of_parts = isinstance(output, TokenClasses) and output.parts
    pairs = () if of_parts else alignment(trace, other, stream)
    aligned = dict(pairs).get(row) if pairs else row
    return aligned if aligned is not None and aligned < n else None


def _usual(
    trace: Trace, other: Trace, all_decisions: list[Decision], rows: list[int | None]
) -> int:
    """Return the decision to begin with: the first in which the runs differ.

    For a text that continues it is the last.
    """
    ours, theirs = logits_of(trace.outputs).argmax(-1), logits_of(other.outputs).argmax(-1)
    shared = [i for i, row in enumerate(rows) if row is not None]
    differing = [
        i
        for i in shared
        if int(ours[all_decisions[i].row])
        == all_decisions[i].option
        != _option(other, trace, int(theirs[rows[i] or 0]))
    ]
    default = default_decision(trace, all_decisions)
    if _continues(trace):
        return shared[-1]
    return differing[0] if differing else default if default in shared else shared[0]


def _continues(trace: Trace) -> bool:
    output = first_output(trace)
    return isinstance(output, NextToken) and not output.is_closed
