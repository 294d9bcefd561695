"""The experts that the chosen token is sent to in the chosen layer, as a table and a sentence."""

from typing import Any

from models.analysis.layer_parts import cosine_between
from models.analysis.routing import TokenRouting
from models.hub.model import HubModel
from models.hub.routing import may_be_mixture
from viz_app.drawing.labels import quote
from viz_app.views.layer import text
from viz_app.views.layer.token_view import TokenView

EXPERT_COLUMNS = ("expert", "weight", "length of its output", "cosine with the sum")


def experts(view: TokenView) -> dict[str, Any] | None:
    """Return the table of the layer's experts, largest weight first; None without known ones."""
    routed = _chosen(view)
    if routed is None:
        return None
    lengths = routed.outputs.norm(dim=1).tolist()
    directions = [cosine_between(output, routed.total) for output in routed.outputs]
    numbers = zip(routed.weights.tolist(), lengths, directions, strict=True)
    names = [str(expert + 1) for expert in routed.experts.tolist()]
    return {
        "title": f"Experts of the token {quote(view.token)}",
        "columns": EXPERT_COLUMNS,
        "rows": [[name, *row] for name, row in zip(names, numbers, strict=True)],
        "sentence": text.routing(
            len(names),
            routed.n_experts,
            float(routed.weights.sum()),
            float(routed.beside.norm()),
            float(routed.total.norm()),
        ),
    }


def _chosen(view: TokenView) -> TokenRouting | None:
    """Return the routing of the first mixture in the chosen layer."""
    paths = [part.sublayer.path for part in view.layer]
    return next((view.routed[path] for path in paths if path in view.routed), None)


def inside_unknown(view: TokenView) -> str:
    """Return the note on what is not known about the inside of the layer's feed-forward."""
    if _chosen(view) is not None:
        return ""
    model = view.run.scope.model
    is_hub = isinstance(model, HubModel)
    is_mixture = is_hub and any(may_be_mixture(model, p.sublayer) for p in view.layer)
    return text.ROUTER_UNKNOWN if is_mixture else text.INSIDE_UNKNOWN
