"""Checks that a model can carry out the edits of a run; none is silently ignored."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches

from models.architectures import Model
from models.trace import AttentionSite
from models.trace.edits import Edits


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
    if edits and not model.masks_can_change:
        raise ValueError(f"{name} returns finished weights; its attention cannot be changed")


def check_activations(edits: Edits, offered: Collection[str]) -> None:
    """Check after a run that each intermediate an edit names was `offered` to it.

    Raises:
        ValueError: the run has no such intermediate, or none that can be changed.
    """
    for edit in edits:
        if not edit.changes("activation"):
            continue
        if not offered:
            raise ValueError(f"{edit}: this model has no activation that can be changed")
        name = edit.where.activation
        if name is not None and name not in offered:
            near = ", ".join(get_close_matches(name, offered, n=3, cutoff=0.0))
            raise ValueError(
                f"{edit}: {name!r} is not one of the {len(offered)} activations that can be "
                f"changed, such as {near}"
            )


def check_sites(edits: Edits, sites: Mapping[str, AttentionSite], n_rows: int) -> None:
    """Check after a run that every edit applied to what it names.

    Raises:
        ValueError: an edit names an attention, a head or a batch row that the run does not have.
    """
    for edit in edits:
        where = edit.where
        if where.site is not None and where.site not in sites:
            raise ValueError(f"edit of {where.site!r}: the attentions are {', '.join(sites)}")
        present = {"batch rows": (where.rows, n_rows)}
        if edited := [site.n_heads for site in sites.values() if edit in site.edits]:
            present = {"heads": (where.heads, min(edited)), **present}
        for what, (numbers, n) in present.items():
            if wrong := [i for i in numbers or () if not 0 <= i < n]:
                raise ValueError(f"{edit}: {what} are 0 to {n - 1}, got {wrong[0]}")
