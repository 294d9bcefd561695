"""Selections from the edits of a run."""

from collections.abc import Iterable
from dataclasses import replace

from models.trace.edits.base import Edit, Edits, Where
from models.trace.edits.masks import MaskChange


def effective(edits: Iterable[Edit]) -> Edits:
    """Leave out the edits that change nothing."""
    return tuple(edit for edit in edits if not edit.is_none)


def for_kinds(**edits: Edit) -> Edits:
    """Apply each edit to all attentions of a kind, by its name."""
    return effective(
        replace(edit, where=replace(edit.where, kind=kind)) for kind, edit in edits.items()
    )


def mask_change(edits: Edits, kind: str) -> MaskChange:
    """Return the change to the masks of all attentions of a kind, MaskChange() if there is none."""
    where = Where(kind=kind)
    candidates = (e for e in edits if isinstance(e, MaskChange) and e.where == where)
    return next((replace(edit, where=Where()) for edit in candidates), MaskChange())


def opens_ahead(edits: Iterable[Edit], kind: str) -> bool:
    """Return True if some attention of a kind may let a position see a later one."""
    return any(edit.opens_ahead and edit.where.kind in (None, kind) for edit in edits)


def of_row(edits: Edits, row: int) -> Edits:
    """Return the edits as they apply to one batch row alone."""
    return tuple(edit for e in edits if (edit := e.of_row(row)) is not None)
