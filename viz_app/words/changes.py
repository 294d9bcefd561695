"""The names of what is changed about a run."""

from collections.abc import Mapping

from models.runs.spec import RunSpec
from viz_app.words.training import listed


def changes(spec: RunSpec, trained_with: str, kinds: Mapping[str, str]) -> dict[str, str]:
    """Return a label for each change of RunSpec.without that this spec makes; forced tokens are named where they are generated.

    `trained_with` is the model's own similarity, `kinds` gives the short name of each kind of attention.
    """
    model, labels = spec.model, {}
    if model.step is not None:
        labels["step"] = f"Training step {model.step:,}"
    if model.similarity:
        labels["similarity"] = f"Similarity: {model.similarity} (trained with {trained_with})"
    if not model.positions:
        labels["positions"] = "No position vectors"
    if spec.edits:
        edited = dict.fromkeys(kinds.get(e.where.kind, e.where.kind) for e in spec.edits)
        labels["edits"] = f"Mask changed: {listed(list(edited))}"
    return labels
