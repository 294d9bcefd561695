"""The names of what is changed about a run."""

from collections.abc import Mapping

from models.runs.spec import RunSpec
from models.trace.edits import MaskChange
from viz_app.words.training import join_names

MOST_NAMED = 3  # edits named one by one


def changes(spec: RunSpec, trained_with: str, kinds: Mapping[str, str]) -> dict[str, str]:
    """Return a label for each change of RunSpec.without that this spec makes.

    Forced tokens are named where they are generated.

    `trained_with` is the model's own similarity, `kinds` gives the short name of each kind of
    attention.
    """
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
    if others := [edit.describe(1) for edit in spec.edits if not isinstance(edit, MaskChange)]:
        more = f"; and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
        labels["edits"] = "; ".join(others[:MOST_NAMED]) + more
    return labels
