"""Edits that a model cannot carry out are refused, and never silently left out."""

from collections.abc import Mapping

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
                f"edits are for {', '.join(kinds) or 'models with attention'}, not {edit.where.kind!r}"
            )
        if edit.changes("activation") and not model.activations_can_change:
            raise ValueError(f"the activations of {name} can be recorded, but not changed")
    if edits and not model.masks_can_change:
        raise ValueError(f"{name} returns finished weights; its attention cannot be changed")


def check_sites(edits: Edits, sites: Mapping[str, AttentionSite], n_rows: int) -> None:
    """Check after a run that every edit met what it names.

    Raises:
        ValueError: an edit names an attention, a head or a batch row that the run does not have.
    """
    for edit in edits:
        where = edit.where
        if where.site is not None and where.site not in sites:
            raise ValueError(f"edit of {where.site!r}: the attentions are {', '.join(sites)}")
        met = [site for site in sites.values() if edit in site.edits]
        n_heads = min((site.n_heads for site in met), default=None)
        for what, numbers, n in (
            ("heads", where.heads, n_heads),
            ("batch rows", where.rows, n_rows),
        ):
            if wrong := [i for i in numbers or () if n is not None and not 0 <= i < n]:
                raise ValueError(f"{edit}: {what} are 0 to {n - 1}, not {wrong[0]}")
