"""Softmax, and the effect of dividing scores by √d_k: how spread out and how sensitive rows are."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.layers.similarity import masked_softmax
from models.trace import AttentionSite


def entropy_nats(weights: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows"]:
    """Return −Σ p·ln p in nats: 0 if one key has all the weight, ln n if n keys share it."""
    return torch.special.entr(weights).sum(-1)


def gradient_norm(weights: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows"]:
    """‖∂ weights/∂ scores‖ = ‖diag(p) − p·pᵀ‖ (Frobenius) = √(Σp² − 2Σp³ + (Σp²)²).

    In double precision, because near a one-hot row the three terms almost cancel.
    """
    p = weights.double()
    squares = p.square().sum(-1)
    return (squares - 2 * p.pow(3).sum(-1) + squares.square()).clamp(min=0).sqrt().to(weights.dtype)


@dataclass(frozen=True)
class Scaling:
    """Effect of dividing q·k by `divisor` on one or more rows.

    `gradient` is gradient_norm, the sensitivity of the weights to a score q·k/divisor.
    """

    divisor: float
    scores: Float[Tensor, "*rows key"]
    weights: Float[Tensor, "*rows key"]
    entropy: Float[Tensor, "*rows"]
    gradient: Float[Tensor, "*rows"]

    @property
    def product_gradient(self) -> Float[Tensor, "*rows"]:
        """‖∂ weights/∂(q·k)‖, the gradient that reaches q and k.

        By the chain rule it is `gradient` divided by the divisor.
        """
        return self.gradient / self.divisor


def scaling(
    raw: Float[Tensor, "*rows key"],
    allowed: Bool[Tensor, "*rows key"],
    divisor: float,
    added: Float[Tensor, "*rows key"] | float = 0.0,
) -> Scaling:
    """softmax(q·k/divisor + added) over the allowed keys (Vaswani et al. 2017, §3.2.1).

    √d_head is the model's own divisor; 1 leaves scaling out.
    """
    if not divisor > 0:
        raise ValueError(f"the divisor must be positive, not {divisor}")
    scores = raw / divisor + added
    weights = masked_softmax(scores[..., None, :], allowed[..., None, :])[..., 0, :]
    return Scaling(divisor, scores, weights, entropy_nats(weights), gradient_norm(weights))


def raw_scores(site: AttentionSite, head: int, batch: int = 0) -> Float[Tensor, "query key"]:
    """Return q·k of one head with the terms that share its divisor, neither scaled nor masked."""
    every, key_head = torch.arange(site.n_query), head // (site.n_heads // site.k.shape[1])
    divided = (
        term.divisor * term.scores(head, every, site.n_key, batch)
        for term in site.terms
        if term.divisor
    )
    return site.q[batch, head] @ site.k[batch, key_head].T + sum(divided)


def undivided_scores(site: AttentionSite, head: int, batch: int = 0) -> Float[Tensor, "query key"]:
    """Return the terms added to one head's scores after the division; 0 in most models."""
    every = torch.arange(site.n_query)
    added = (term.scores(head, every, site.n_key, batch) for term in site.terms if not term.divisor)
    return sum(added, torch.zeros(site.n_query, site.n_key))
