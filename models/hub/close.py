"""Compare two routes to one number of a third-party model."""

from jaxtyping import Float
from torch import Tensor

from models.analysis.checks import rounding_in
from models.hub.model import HubModel


def is_close(model: HubModel, one: Float[Tensor, "*shape"], other: Float[Tensor, "*shape"]) -> bool:
    """Return True if two tensors of a run are equal up to the rounding of the model's dtype."""
    return float((one - other).abs().max()) <= rounding_in(model.module.dtype) * max(
        1.0, float(other.abs().max())
    )
