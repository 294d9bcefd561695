"""Make the other runs that edits take numbers from, and give the edits these numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from models.architectures import Model
from models.runs.held_out import HeldOut
from models.runs.inputs import FieldInput
from models.tokenizers.base import Encoding
from models.trace import AttentionSite, Trace
from models.trace.edits import FROM_TEXTS, Edit, Edits, HeadOff, Patch
from models.trace.edits.material import Material, PositionVectors, RecordingEdit
from models.trace.edits.patch import ModelOfRun

StreamEncodings = Mapping[str, Encoding]  # the streams of one input


@runtime_checkable
class RunMaker(Protocol):
    """An object that makes the other runs, such as a Scope."""

    model: Model
    name: str
    fingerprint: str
    positions_removed: bool

    def run_batch(
        self, requests: Sequence[Sequence[FieldInput]], *, edits: Sequence[Edit] = ()
    ) -> list[Trace]: ...
    def held_out_outputs(self, texts: tuple[tuple[str | None, ...], ...]) -> HeldOut: ...


def needs_material(edit: Edit) -> bool:
    """Return True if an edit takes numbers from other runs."""
    return isinstance(edit, Patch) or (isinstance(edit, HeadOff) and edit.baseline in FROM_TEXTS)


def with_material(
    scope: RunMaker, edits: Edits, rows: Sequence[StreamEncodings], *, generating: bool = False
) -> Edits:
    """Return the edits with the numbers they take from other runs.

    An edit whose numbers depend on the text becomes one edit for each row of a batch. While
    `generating`, the stream that the model writes has no length yet.

    Raises:
        InputError: the fields of another run cannot be read.
        ValueError: there is too little held-out text, token counts differ, or the run that a patch
            takes from is of another model.
    """
    if not any(needs_material(edit) for edit in edits):
        return edits
    material = _Maker(scope, rows, generating)
    return tuple(one for edit in edits for one in material.of(edit))


@dataclass
class _Maker:
    """The numbers for the edits of one batch; each other run is made once."""

    scope: RunMaker
    rows: Sequence[StreamEncodings]
    generating: bool
    others: dict[tuple[FieldInput, ...], tuple[Trace, RecordingEdit]] = field(default_factory=dict)

    def of(self, edit: Edit) -> Iterator[Edit]:
        """Yield an edit with its numbers, once for each row if they differ."""
        if not needs_material(edit):
            yield edit
        elif isinstance(edit, HeadOff) and edit.baseline == "mean":
            outputs = self.scope.held_out_outputs(edit.examples)
            means = {name: outputs.mean(name) for name in outputs.at(edit.where)}
            yield replace(edit, material=means)
        elif len(self.rows) == 1:
            yield replace(edit, material=self._for_row(edit, 0))
        else:
            rows = range(len(self.rows)) if edit.where.rows is None else edit.where.rows
            for row in rows:
                one = replace(edit, where=replace(edit.where, rows=(row,)))
                yield replace(one, material=self._for_row(edit, row))

    def _for_row(self, edit: Edit, row: int) -> Material:
        if isinstance(edit, Patch):
            return self._patch(edit, self.rows[row])
        if not isinstance(edit, HeadOff):
            raise TypeError(f"{edit} takes no numbers from other runs")
        held_out, model = self.scope.held_out_outputs(edit.examples), self.scope.model
        ids = {name: encoding.ids for name, encoding in self.rows[row].items()}
        return {
            name: held_out.resampled(
                name, edit.seed, ids, model.streams[0], grows=stream == model.writes
            )
            for name, stream in held_out.at(edit.where).items()
        }

    def _patch(self, edit: Patch, row: StreamEncodings) -> Material:
        self._check_model(edit)
        trace, recording = self._other(edit, row)
        if edit.of == "activation":
            name = edit.where.activation or ""
            if name not in recording.activations:
                return {}  # the run's own error lists the activations
            stream = trace.activations[name].axes[1]
            index = self._index(edit, row, trace, stream)
            return {name: _place(recording.activations[name], index)}
        return {
            name: self._of_site(edit, row, trace, recording, site)
            for name, site in trace.attention.items()
            if edit.where.meets(site.kind, name, site.layer)
        }

    def _of_site(
        self,
        edit: Patch,
        row: StreamEncodings,
        trace: Trace,
        recording: RecordingEdit,
        site: AttentionSite,
    ) -> PositionVectors:
        index = self._index(edit, row, trace, site.query_stream)
        if edit.of == "head output":
            return _place(site.out[0], index)
        weights = recording.weights_of(site.name)
        if edit.alignment and site.key_stream == site.query_stream:
            key_index = self._index(edit, row, trace, site.key_stream)
            keys = _place(weights.transpose(-1, -2), key_index)
            weights = keys.vectors.transpose(-1, -2)
        elif site.key_stream != site.query_stream:
            self._check_counts(edit, row, trace, site.key_stream)
        return _place(weights, index)

    def _check_model(self, edit: Patch) -> None:
        """Check that the run of a patch, if it was given, is of the same model."""
        other, scope = edit.model, self.scope
        if other is None or (other.fingerprint, other.positions_removed) == (
            scope.fingerprint,
            scope.positions_removed,
        ):
            return
        raise ValueError(
            f"{edit}: a patch takes from a run of the same model; the other run is of "
            f"{_described(other)}, this one of {_described(scope)}"
        )

    def _other(self, edit: Patch, row: StreamEncodings) -> tuple[Trace, RecordingEdit]:
        """Return the other run; it reads this row's own text in fields that the edit leaves out."""
        model = self.scope.model
        values: list[FieldInput] = list(edit.fields)
        for i, each in enumerate(model.fields[: len(values)]):
            if values[i] is None and model.translates and each.stream == model.writes:
                values[i] = row.get(model.writes)
        if len(values) == 1 and model.translates and len(model.fields) > 1:
            values.append(row.get(model.writes))
        key = (edit.of, *values)
        if key not in self.others:  # only what is patched is recorded: a model may lack the rest
            recording = RecordingEdit(
                wants_weights=edit.of == "attention row",
                wants_activations=edit.of == "activation",
            )
            self.others[key] = self.scope.run_batch([values], edits=[recording])[0], recording
        return self.others[key]

    def _index(
        self, edit: Patch, row: StreamEncodings, trace: Trace, stream: str
    ) -> list[tuple[int, int]]:
        """Return (position here, position there) pairs on a stream.

        Raises:
            ValueError: token counts differ, or a position does not exist.
        """
        n_there = len(trace.streams[stream].ids)
        open_ended = self.generating and stream == self.scope.model.writes
        n_here = len(row[stream].ids) if stream in row and not open_ended else None
        positions = [*(edit.where.queries or ()), *(here for here, _ in edit.alignment)]
        limit = getattr(self.scope.model.config, "n_ctx", None) if n_here is None else n_here
        if wrong := [p for p in positions if p < 0 or (limit is not None and p >= limit)]:
            raise ValueError(
                f"{edit}: {stream} positions are 0 to {(limit or 0) - 1}, got {wrong[0]}"
            )
        if not edit.alignment:
            if n_here is not None:
                self._check_counts(edit, row, trace, stream)
            return [(position, position) for position in range(n_there)]
        if wrong := [there for _, there in edit.alignment if not 0 <= there < n_there]:
            raise ValueError(
                f"{edit}: {stream} positions of the other run are 0 to {n_there - 1}, got {wrong[0]}"
            )
        return list(edit.alignment)

    @staticmethod
    def _check_counts(edit: Patch, row: StreamEncodings, trace: Trace, stream: str) -> None:
        n_here, n_there = len(row[stream].ids), len(trace.streams[stream].ids)
        if n_here != n_there:
            raise ValueError(
                f"{edit}: this run has {n_here} {stream} tokens and the other {n_there}; give both "
                "the same number, or an alignment"
            )


def _described(model: ModelOfRun | RunMaker) -> str:
    positions = " without positions" if model.positions_removed else ""
    return f"{model.name} ({model.fingerprint[:12]}{positions})"


def _place(
    vectors: Float[Tensor, "*head position feature"], index: Sequence[tuple[int, int]]
) -> PositionVectors:
    """Return the vectors at their positions in the edited run."""
    if all(here == there for here, there in index) and len(index) == vectors.shape[-2]:
        return PositionVectors(vectors)
    n = max(here for here, _ in index) + 1
    positions, sources = torch.tensor(index).T
    placed = vectors.new_zeros(*vectors.shape[:-2], n, vectors.shape[-1])
    placed[..., positions, :] = vectors[..., sources, :]
    covered = torch.zeros(n, dtype=torch.bool)
    covered[positions] = True
    return PositionVectors(placed, covered)
