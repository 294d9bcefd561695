"""Labels for the changes of a run."""

from collections.abc import Mapping, Sequence

from models.runs.spec import RunSpec
from models.trace import AttentionSite
from models.trace.edits import Edit, MaskChange, SetWeights, Where
from viz_app.words.attention import head_location, kind_short, kind_title, layer_location
from viz_app.words.training import join_names

MAX_NAMED_EDITS = 3  # edits named one by one


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
        more = (
            f"; and {len(others) - MAX_NAMED_EDITS} more" if len(others) > MAX_NAMED_EDITS else ""
        )
        labels["edits"] = "; ".join(others[:MAX_NAMED_EDITS]) + more
    return labels


def edit_label(edit: Edit, sites: Mapping[str, AttentionSite]) -> str:
    """Name an edit for display: "Cross-attention, layer 3, head 6: head output set to 0"."""
    where = edit.where
    met = [site for site in sites.values() if where.meets(site.kind, site.name, site.layer)]
    if not met:
        return edit.describe(1)
    heads = sorted(where.heads or ())
    if len(met) > 1:
        place = _attentions(met, where)
    elif len(heads) == 1:
        return f"{head_location(met[0], heads[0])}: {edit_effect(edit)}"
    else:
        place = layer_location(met[0])
    if heads and len(heads) < max(site.n_heads for site in met):
        place += f", {_numbered('head', [head + 1 for head in heads])}"
    return f"{place}: {edit_effect(edit)}"


def _attentions(sites: Sequence[AttentionSite], where: Where) -> str:
    """Name several attentions: "Cross-attention, layers 1 and 3"."""
    titles = dict.fromkeys(map(kind_title, sites))
    place = join_names(list(titles)) if where.kind else "Every attention"
    layers = sorted({site.layer + 1 for site in sites})
    return f"{place}, {_numbered('layer', layers)}" if where.layers else place


def edit_effect(edit: Edit) -> str:
    """Say what an edit does to its head, and at which positions, unless at all."""
    queries = edit.where.queries
    by_hand = isinstance(edit, SetWeights) and queries
    effect = "weights set by hand" if by_hand else ", ".join(edit.effects())
    return f"{effect} at {_numbered('position', queries)}" if queries else effect


def _numbered(noun: str, numbers: Sequence[int]) -> str:
    return f"{noun}{'s' * (len(numbers) > 1)} {join_names([str(number) for number in numbers])}"
