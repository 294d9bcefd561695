"""The experts that a token was sent to by a mixture of experts (Shazeer et al. 2017, eq. 2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from models.analysis.checks import Check, rounding_in
from models.trace import Trace


@runtime_checkable
class Experts(Protocol):
    """The experts of one feed-forward, as models.hub.routing finds them."""

    @property
    def names(self) -> tuple[str, str, str]: ...
    @property
    def reads(self) -> str: ...
    @property
    def n_experts(self) -> int: ...
    def outputs(
        self, x: Float[Tensor, "token d_model"], experts: Int[Tensor, "token choice"]
    ) -> Float[Tensor, "token choice d_model"]: ...


@dataclass(frozen=True, eq=False)
class TokenRouting:
    """One token in a mixture of experts, whose choices are ordered by weight, largest first.

    `outputs` is what each expert makes of the token, computed again with this expert alone; `total`
    is the recorded sum, and `beside` what the feed-forward makes besides (shared experts).
    """

    n_experts: int
    experts: Int[Tensor, "choice"]
    weights: Float[Tensor, "choice"]
    outputs: Float[Tensor, "choice d_model"]
    total: Float[Tensor, "d_model"]
    beside: Float[Tensor, "d_model"]

    def check(self, dtype: torch.dtype) -> Check:
        """Check that the experts' outputs times the router's weights sum to the recorded sum."""
        summed = (self.weights[:, None] * self.outputs).sum(0)
        size = max(1.0, float(self.total.abs().max()))
        return Check(
            "the experts add up by the router's weights",
            float((summed - self.total).abs().max()),
            rounding_in(dtype) * size,
            "Largest difference of Σ weight · expert(x), each expert alone, from the recorded sum",
        )


def routings(model: object) -> Mapping[str, Experts]:
    """Return the known experts of a model by the path of their feed-forward."""
    return getattr(model, "routings", {})


def token_routing(
    trace: Trace, experts: Experts, activation: str, position: int
) -> TokenRouting | None:
    """Return the experts of one token; None if the run is too long for them to be recorded.

    `activation` names the output of the whole feed-forward.
    """
    activations = trace.activations
    if not {*experts.names, experts.reads, activation} <= set(activations):
        return None
    experts_of_token, weights, total = (
        activations[name].value[0, position] for name in experts.names
    )
    order = weights.argsort(descending=True, stable=True)
    experts_of_token, weights = experts_of_token[order].long(), weights[order]
    x = activations[experts.reads].value[0, position]
    outputs = experts.outputs(x[None], experts_of_token[None])[0].float().cpu()
    beside = activations[activation].value[0, position] - total
    return TokenRouting(experts.n_experts, experts_of_token, weights, outputs, total, beside)
