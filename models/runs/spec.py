"""A run as a value: everything that determines what a model computes, hashable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from models.runs.inputs import FieldInput
from models.runs.scope import Scope
from models.trace import Trace
from models.trace.edits import Edits, MaskChange

ForcedPairs = tuple[tuple[int, int], ...]
Load = Callable[..., Scope]  # models.load, or a function of its first argument and `snapshot`
KeepScope = Callable[[Scope, str, Callable[[], Scope]], Scope]


def _make(scope: Scope, change: str, make: Callable[[], Scope]) -> Scope:
    return make()


@dataclass(frozen=True)
class ModelRef:
    """A checkpoint and the changes to it."""

    checkpoint: str  # a shipped name or a folder
    step: int | None = None  # training step of a snapshot; None: the final weights
    similarity: str = ""  # of models.layers.similarity.SIMILARITIES; "" keeps the model's own
    positions: bool = True  # False: no position vector is added

    @property
    def unchanged(self) -> ModelRef:
        """The checkpoint as it was trained."""
        return ModelRef(self.checkpoint)

    def open(self, load: Load, keep: KeepScope = _make) -> Scope:
        """Open the checkpoint with `load` (models.load) and make the changes.

        `keep(scope, change, make)` may return an earlier result of `make` for the same weights and
        change.

        Raises:
            CheckpointError: the checkpoint or its snapshot cannot be opened.
            ValueError: the model has no similarity to replace, or no position vectors to leave out.
        """
        scope = load(self.checkpoint, snapshot=self.step)
        if self.similarity and self.similarity != scope.model.similarity:
            swap = partial(scope.with_similarity, self.similarity)
            scope = keep(scope, f"similarity {self.similarity}", swap)
        if not self.positions:
            scope = keep(scope, "no positions", scope.without_positions)
        return scope


@dataclass(frozen=True)
class RunSpec:
    """Everything that determines a run.

    `forced` holds (position, token id) pairs, used while generating. A changed model reads what the
    unchanged one read and generated, so that both runs can be compared position by position.
    """

    model: ModelRef
    fields: tuple[FieldInput | None, ...]  # of the model, in their order
    edits: Edits = ()
    forced: ForcedPairs = ()

    @property
    def unchanged(self) -> RunSpec:
        """This spec without changes: the fields read by the checkpoint as it was trained."""
        return RunSpec(self.model.unchanged, self.fields)

    @property
    def is_unchanged(self) -> bool:
        """True if the forward pass is that of the unchanged model, whatever tokens are forced."""
        return self.model == self.model.unchanged and not self.edits

    def without(self, change: str) -> RunSpec:
        """Return the spec with one of its changes undone.

        A change is "step", "similarity", "positions", "masks", "edits" (all others) or "forced".
        """
        unchanged = RunSpec(self.model.unchanged, ())
        if change == "forced":
            return replace(self, forced=())
        if change in ("masks", "edits"):
            rest = [
                edit for edit in self.edits if isinstance(edit, MaskChange) != (change == "masks")
            ]
            return replace(self, edits=tuple(rest))
        if change in ("step", "similarity", "positions"):
            model = replace(self.model, **{change: getattr(unchanged.model, change)})
            return replace(self, model=model)
        raise ValueError(
            f"a change is step, similarity, positions, masks, edits or forced, not {change!r}"
        )

    def run(self, open: Callable[[ModelRef], Scope]) -> Trace:
        """Run it: one recorded forward pass on what the unchanged model read and generated.

        `open` opens a model, for example `lambda ref: ref.open(models.load)`.

        Raises:
            InputError: a field cannot be read.
            CheckpointError, ValueError: as `ModelRef.open`.
        """
        if self.is_unchanged:
            return open(self.model).run(*self.fields)
        return self.reread(open(self.model), self.unchanged.run(open))

    def reread(self, scope: Scope, trace: Trace) -> Trace:
        """Return the run of the changed model on the streams of the unchanged one, `trace`."""
        return scope.run_batch([read_values(scope, trace)], edits=self.edits)[0]


def read_values(scope: Scope, trace: Trace) -> tuple[FieldInput | None, ...]:
    """Return the values that a run read, for the fields of this model.

    Each stream is the value of its first field; a stream whose tokens the model chooses itself
    (hidden tokens, an order) is passed as it was typed.
    """
    if scope.model.translates:
        return tuple(trace.streams[field.stream] for field in scope.model.fields)
    return tuple(trace.fields.values())
