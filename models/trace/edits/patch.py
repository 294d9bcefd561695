"""Activation patching: a part of one run is put into another (Zhang and Nanda 2024)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from models.printable import printable
from models.trace.edits.base import ActivationPart, AttentionPart, Edit, Edits
from models.trace.edits.material import Material, material_for, replace_vectors

PATCHED_PARTS = {"head output": "head_out", "attention row": "weights", "activation": "activation"}
MAX_QUOTE_LENGTH = 40

FieldValue = str | tuple[int, ...] | None


@runtime_checkable
class ModelOfRun(Protocol):
    """The model that a run was made with, such as a RunModel."""

    @property
    def name(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def positions_removed(self) -> bool: ...


@runtime_checkable
class OtherRun(Protocol):
    """A run that a patch takes from, such as a Trace."""

    @property
    def model(self) -> ModelOfRun: ...
    @property
    def fields(self) -> Mapping[str, str | Sequence[int] | None]: ...
    @property
    def attention(self) -> Mapping[str, object]: ...
    @property
    def edits(self) -> Edits: ...


@dataclass(frozen=True)
class Patch(Edit):
    """Take head outputs, rows of weights or an intermediate from another run of the same model.

    The other run is given by its `fields`; `Scope.with_material` makes it again. A field that is
    None and that the model writes is read from the run being patched, so that both runs of a
    translation read the same target: only the source differs. The intermediates to patch are the
    cells of the residual stream (`resid_pre`, `resid_mid`, `resid_post`) and `ff_out`; in a
    recurrent model the states, so that the next step starts from the patched one.

    Without an alignment, both runs must have the same number of tokens there, and position i takes
    from position i. `alignment` holds (position here, position in the other run) pairs; other
    positions keep what they have. For rows of self-attention it aligns the keys too, and the
    weights of keys without a counterpart go to the others.

    While generating, positions beyond the end of the other run keep what they have.
    """

    of: str = ""  # of PATCHED_PARTS; "" for an activation if one is named, else the head output
    fields: tuple[FieldValue, ...] = ()
    alignment: tuple[tuple[int, int], ...] = ()
    material: Material | None = field(default=None, compare=False, repr=False)
    model: ModelOfRun | None = field(default=None, compare=False, repr=False)  # of `from_run`
    from_run: InitVar[OtherRun | None] = None
    positions: InitVar[Sequence[int] | None] = None

    def __post_init__(
        self, head: int | None, from_run: OtherRun | None, positions: Sequence[int] | None
    ) -> None:
        super().__post_init__(head)
        where, of = self.where, self.of
        if positions is not None:
            where = replace(where, queries=tuple(positions))
        if from_run is not None:
            if from_run.edits:
                raise ValueError("a patch takes from a run without edits")
            values = (tuple(v) if isinstance(v, list) else v for v in from_run.fields.values())
            object.__setattr__(self, "fields", tuple(values))
            object.__setattr__(self, "model", from_run.model)
            if not of and where.site is not None and where.site not in from_run.attention:
                of = "activation"
        of = of or ("activation" if where.activation else "head output")
        if of not in PATCHED_PARTS:
            raise ValueError(f"a patch is of {', '.join(PATCHED_PARTS)}, got {of!r:.60}")
        if of == "activation" and where.activation is None:
            if where.site is None:
                raise ValueError("a patch of an activation names one, such as its `resid_mid`")
            where = replace(where, site=None, activation=where.site)
        if isinstance(self.fields, str):
            raise ValueError(f"fields of the other run must be in a list, got {self.fields!r:.60}")
        if not any(value is not None for value in self.fields):
            raise ValueError("a patch names the other run: `from_run`, or its `fields`")
        if len({here for here, _ in self.alignment}) < len(self.alignment):
            raise ValueError("an alignment gives each position one counterpart")
        object.__setattr__(self, "of", of)
        object.__setattr__(self, "where", where)

    @property
    def names_positions(self) -> bool:
        return super().names_positions or bool(self.alignment)

    @property
    def depends_on_positions(self) -> bool:
        return True

    def changes(self, what: str) -> bool:
        return what == PATCHED_PARTS[self.of]

    def weights(
        self, weights: Float[Tensor, "row head query key"], part: AttentionPart
    ) -> Float[Tensor, "row head query key"]:
        """Take the rows of the other run."""
        return replace_vectors(self, material_for(self.material, part.site, self), weights, part)

    def head_out(
        self, head_out: Float[Tensor, "row head query d_head"], part: AttentionPart
    ) -> Float[Tensor, "row head query d_head"]:
        """Take the head outputs of the other run."""
        return replace_vectors(self, material_for(self.material, part.site, self), head_out, part)

    def activation(
        self, value: Float[Tensor, "row token feature"], part: ActivationPart
    ) -> Float[Tensor, "row token feature"]:
        """Take the intermediate of the other run."""
        vectors, applies = material_for(self.material, part.name, self).at(part.tokens, value)
        return vectors.where(part.chosen(self.where) & applies, value)

    @property
    def quote(self) -> str:
        """The text of the other run, shortened."""
        texts = " / ".join(value for value in self.fields if isinstance(value, str))
        quote = printable(" ".join(texts.split()))
        return (
            quote
            if len(quote) <= MAX_QUOTE_LENGTH
            else f"{quote[: MAX_QUOTE_LENGTH - 1].rstrip()}…"
        )

    def effects(self) -> list[str]:
        part = "value" if self.of == "activation" else self.of
        pairs = " ".join(f"{here}←{there}" for here, there in self.alignment)
        return [f"{part} taken from “{self.quote}”", *([f"aligned {pairs}"] if pairs else [])]
