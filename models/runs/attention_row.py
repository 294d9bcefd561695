"""One row of attention weights, and the model's answer when that row is replaced."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.analysis.effects import MAX_BATCH_LOGITS
from models.analysis.metrics import logits_of
from models.architectures import Model
from models.architectures.base import Architecture
from models.decoding.incremental import Incremental, id_row, sees_ahead
from models.tokenizers.base import Encoding
from models.trace import AttentionSite, Trace, TracedModule
from models.trace.edits import Edit, Edits, SetWeights, Where
from models.trace.edits.gradients import GivenWeights
from models.trace.outputs import (
    ChoiceProbabilities,
    ClassProbabilities,
    MaskedToken,
    MultiLabelProbabilities,
    NextToken,
    Output,
    TokenClasses,
    TokenInOrder,
)

WEIGHT_DIGITS = 6  # of a weight set by hand, to keep edits short


@runtime_checkable
class EditRunner(Protocol):
    """A runner of batches and of edits that need other runs, such as a Scope."""

    model: Model

    def outputs_batch(
        self,
        rows: Sequence[Mapping[str, Encoding]],
        edits: Sequence[Edit] = (),
        *,
        gradients: bool = False,
    ) -> list[dict[str, Output]]: ...
    def with_material(self, edits: Sequence[Edit], streams: Mapping[str, Encoding]) -> Edits: ...


def query_of(trace: Trace, site: AttentionSite, decision: int) -> int:
    """Return the query position that the logits of `decision` are read at.

    Raises:
        ValueError: no row of this attention belongs to that decision alone.
    """
    if not site.has_causes:
        raise ValueError(f"{site.name}: its weights are known but cannot be set: {site.why_given}")
    output = next(
        (one for one in trace.outputs.values() if getattr(one, "logits", None) is not None), None
    )
    is_classes = isinstance(output, ClassProbabilities | MultiLabelProbabilities)
    reads_several = is_classes and output.position is None
    if output is None or reads_several or isinstance(output, ChoiceProbabilities):
        raise ValueError("this answer is read from several tokens at once, not from one row")
    if output.stream != site.query_stream:
        raise ValueError(
            f"the queries of {site.name} are {site.query_stream} tokens, and the answer is read from "
            f"{output.stream} tokens: none of its rows belongs to one word"
        )
    if isinstance(output, MaskedToken):
        positions: Sequence[int | None] = output.positions
    elif isinstance(output, ClassProbabilities | MultiLabelProbabilities):
        positions = (output.position or 0,) * len(
            output.logits.reshape(-1, output.logits.shape[-1])
        )
    elif isinstance(output, TokenClasses):
        positions = [output.source(row) for row in range(len(output.logits))]
    elif isinstance(output, NextToken | TokenInOrder):
        positions = range(len(output.logits))
    else:
        raise ValueError(f"the answer of type {type(output).__name__} has no row of its own")
    if not 0 <= decision < len(positions):
        raise ValueError(f"decisions are 0 to {len(positions) - 1}, got {decision}")
    if (query := positions[decision]) is None:
        raise ValueError("this part of the answer is read from no token")
    if not 0 <= query < site.n_query:
        raise ValueError(f"{site.name} has {site.n_query} queries, got {query}")
    return query


@dataclass(frozen=True, eq=False)
class AttentionRow:
    """The weights of one head at one query, in a run, and the row of logits that they lead to.

    The run's own edits still apply; the row is replaced after them.
    """

    scope: EditRunner
    trace: Trace
    site: str
    head: int
    decision: int

    def __post_init__(self) -> None:
        if self.site not in self.trace.attention:
            raise ValueError(f"the attentions are {', '.join(self.trace.attention)}")
        site = self.trace.attention[self.site]
        if not 0 <= self.head < site.n_heads:
            raise ValueError(f"{self.site}: heads are 0 to {site.n_heads - 1}, got {self.head}")
        query_of(self.trace, site, self.decision)

    @cached_property
    def query(self) -> int:
        return query_of(self.trace, self.trace.attention[self.site], self.decision)

    @cached_property
    def where(self) -> Where:
        return Where(site=self.site, heads=(self.head,), queries=(self.query,))

    @cached_property
    def weights(self) -> Float[Tensor, "key"]:
        """The model's own weights, in double precision."""
        row = slice(self.query, self.query + 1)
        return self.trace.attention[self.site].weights(self.head, 0, row)[0].detach().double()

    @cached_property
    def allowed(self) -> Bool[Tensor, "key"]:
        """The keys that the mask allows."""
        row = slice(self.query, self.query + 1)
        return self.trace.attention[self.site].allowed(0, self.head, row)[0]

    @cached_property
    def logits(self) -> Float[Tensor, "option"]:
        """The answer of the run itself."""
        return logits_of(self.trace.outputs)[self.decision].detach().float()

    def edit(self, weights: Float[Tensor, "key"]) -> SetWeights:
        """Return the edit that sets the row; its weights are rounded and sum to 1."""
        row = round_weights(weights)
        cells = tuple((key, float(w)) for key, w in enumerate(row.tolist()) if w)
        return SetWeights(self.where, cells=cells)

    def answers(
        self, rows: Float[Tensor, "n key"], gradients: bool = False
    ) -> Float[Tensor, "n option"]:
        """Return the logits of the decision under each of these rows of weights."""
        max_rows = max(
            1, MAX_BATCH_LOGITS // (len(self.logits) * (1 if self._quick else self._longest))
        )
        with torch.set_grad_enabled(gradients):
            return torch.cat([self._answers(part) for part in rows.split(max_rows)])

    @property
    def is_quick(self) -> bool:
        """True if an answer needs one new position instead of a whole pass."""
        return self._quick is not None

    @property
    def _longest(self) -> int:
        return max(len(row.ids) for row in self.trace.streams.values())

    def _answers(self, rows: Float[Tensor, "n key"]) -> Float[Tensor, "n option"]:
        edit = GivenWeights(self.where, tensors={self.site: rows[:, None, None].float()})
        if self._quick is None:
            outputs = self.scope.outputs_batch(
                [self.trace.streams] * len(rows),
                [*self.trace.edits, edit],
                gradients=torch.is_grad_enabled(),
            )
            return torch.stack([logits_of(one)[self.decision].float() for one in outputs])
        run, ids = copy.copy(self._quick), self.trace.streams[self.scope.model.writes].ids
        run.cache = copy.deepcopy(run.cache)  # the run writes into it
        run.reorder(torch.zeros(len(rows), dtype=torch.long, device=run.inputs.device))
        run.edits, run.one_token = (*run.edits, edit), run.model
        row = id_row(ids[: self.query + 1], run.model).expand(len(rows), -1)
        return run.next_log_probs(row).cpu()

    @cached_property
    def _quick(self) -> Incremental | None:
        """The run up to the query, so that one new position is enough; None if it is not.

        Earlier positions do not depend on this row if no token sees a later one.
        """
        model, edits = self.scope.model, self.trace.edits
        if (
            not (isinstance(model, Architecture) and model.can_write and model.can_cache)
            or not any(isinstance(part, TracedModule) for part in model.modules())
            or self.trace.attention[self.site].query_stream != model.writes
            or sees_ahead(model, edits)
        ):
            return None
        streams = self.trace.streams
        edits = self.scope.with_material(edits, streams)
        with torch.no_grad():
            run = Incremental(
                model, model.encoder_inputs([streams[model.fields[0].stream].ids]), edits=edits
            )
            if self.query:
                run.new_logits(id_row(streams[model.writes].ids[: self.query], model))
        return run


def round_weights(weights: Float[Tensor, "key"]) -> Float[Tensor, "key"]:
    """Return weights with WEIGHT_DIGITS digits that still sum to 1; keys of weight 0 keep it."""
    unit = 10**WEIGHT_DIGITS
    exact = [w * unit for w in weights.detach().double().tolist()]
    counts = [int(w) for w in exact]
    # the remaining units go to the largest fractions, one each
    by_fraction = sorted(range(len(exact)), key=lambda i: counts[i] - exact[i])
    for i in by_fraction[: max(0, unit - sum(counts))]:
        counts[i] += exact[i] > 0
    largest = max(range(len(counts)), key=counts.__getitem__)
    counts[largest] += unit - sum(counts)
    return torch.tensor([count / unit for count in counts], dtype=torch.float64)
