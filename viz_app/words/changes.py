"""The names of what is changed about a run."""

from collections.abc import Mapping

from models.runs.spec import RunSpec
from models.trace import AttentionSite
from models.trace.edits import Edit, MaskChange, SetWeights
from viz_app.words.attention import head_location, kind_short, layer_location
from viz_app.words.training import join_names

MOST_NAMED = 3  # edits named one by one


def changes(spec: RunSpec, trained_with: str, sites: Mapping[str, AttentionSite]) -> dict[str, str]:
    """Return a label for each change of RunSpec.without that this spec makes.

    Forced tokens are named where they are generated.

    `trained_with` is the model's own similarity, `sites` are the attentions of its run.
    """
    kinds = {site.kind: kind_short(site) for site in sites.values()}
    model, labels = spec.model, {}
    if model.step is not None:
        labels["step"] = f"Training step {model.step:,}"
    if model.similarity:
        labels["similarity"] = f"Similarity: {model.similarity} (trained with {trained_with})"
    if not model.positions:
        labels["positions"] = "No position vectors"
    if masks := [edit.where for edit in spec.edits if isinstance(edit, MaskChange)]:
        places = dict.fromkeys(kinds.get(w.kind or "", w.describe()[0]) for w in masks)
        labels["masks"] = f"Mask changed: {join_names(list(places))}"
    others = [edit_label(edit, sites) for edit in spec.edits if not isinstance(edit, MaskChange)]
    if others:
        more = f"; and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
        labels["edits"] = "; ".join(others[:MOST_NAMED]) + more
    return labels


def edit_label(edit: Edit, sites: Mapping[str, AttentionSite]) -> str:
    """Name an edit for display: "Cross-attention, layer 3, head 6: head output set to 0"."""
    site = sites.get(edit.where.site or "")
    if site is None:
        return edit.describe(1)
    heads = sorted(edit.where.heads or ())
    place = head_location(site, heads[0]) if len(heads) == 1 else layer_location(site)
    if 1 < len(heads) < site.n_heads:
        place += f", heads {join_names([str(head + 1) for head in heads])}"
    return f"{place}: {edit_effect(edit)}"


def edit_effect(edit: Edit) -> str:
    """Say what an edit does to its head."""
    if isinstance(edit, SetWeights) and edit.where.queries:
        return f"weights set by hand at position {edit.where.queries[0]}"
    return ", ".join(edit.effects())
