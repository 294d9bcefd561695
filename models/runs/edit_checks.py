"""Checks that a model can carry out the edits of a run; none is silently ignored."""

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches

from models.architectures import Model
from models.trace import AttentionSite
from models.trace.edits import Edit, Edits, MaskChange


def check_model(edits: Edits, model: Model, name: str) -> None:
    """Check edits before a run.

    Raises:
        ValueError: an edit is for a kind of attention that the model lacks, or for something in it
            that cannot be changed.
    """
    kinds = [kind.name for kind in model.kinds]
    for edit in edits:
        if edit.where.kind not in (None, *kinds):
            raise ValueError(
                f"edits are for {', '.join(kinds) or 'models with attention'}, got {edit.where.kind!r}"
            )
        if edit.where.activation is not None and not edit.changes("activation"):
            raise ValueError(f"{edit}: this changes attention, not {edit.where.activation!r}")
    if edits and not model.can_edit_masks:
        raise ValueError(
            f"only finished weights are known of {name}; its attention cannot be changed"
        )


def check_activations(edits: Edits, names: Collection[str]) -> None:
    """Check after a run that each intermediate an edit names is among the `names` offered to it.

    An edit that names none and changes head outputs as well needs none.

    Raises:
        ValueError: the run has no such intermediate, or none that can be changed.
    """
    for edit in edits:
        name = edit.where.activation
        if not edit.changes("activation") or (name is None and edit.changes("head_out")):
            continue
        if not names:
            raise ValueError(f"{edit}: this model has no activation that can be changed")
        if name is not None and name not in names:
            near = ", ".join(get_close_matches(name, names, n=3, cutoff=0.0))
            raise ValueError(
                f"{edit}: {name!r} is not one of the {len(names)} activations that can be "
                f"changed, such as {near}"
            )


def check_reached(edits: Edits, sites: Collection[str]) -> None:
    """Check after a pass that each attention an edit names is among the `sites` it was applied to.

    Raises:
        ValueError: one is not.
    """
    for edit in edits:
        site = edit.where.site
        if site is not None and site not in sites:
            raise ValueError(f"edit of {site!r}: the attentions are {', '.join(sites)}")


def check_edited_rows(edits: Edits, n_rows: int) -> None:
    """Check before a run that the batch has every row that an edit names.

    Raises:
        ValueError: the batch lacks a row.
    """
    for edit in edits:
        _check_numbers(edit, "batch rows", edit.where.rows, n_rows)


def check_sites(edits: Edits, sites: Mapping[str, AttentionSite]) -> None:
    """Check after a run that the layers and heads that edits name exist.

    A mask change may name layers that the model lacks.

    Raises:
        ValueError: an edit names a layer or a head that the run does not have.
    """
    for edit in edits:
        where = edit.where
        if edited := [site for site in sites.values() if edit in site.edits]:
            _check_numbers(edit, "heads", where.heads, min(site.n_heads for site in edited))
        if where.layers is not None and not isinstance(edit, MaskChange):
            kinds = [site for site in sites.values() if where.kind in (None, site.kind)]
            n_layers = max((site.layer + 1 for site in kinds), default=0)
            _check_numbers(edit, "layers", where.layers, n_layers)


def _check_numbers(edit: Edit, what: str, numbers: Iterable[int] | None, n: int) -> None:
    if wrong := [i for i in numbers or () if not 0 <= i < n]:
        raise ValueError(f"{edit}: {what} are 0 to {n - 1}, got {wrong[0]}")
