"""Softmax, and what dividing the scores by √d_k does to it: how evenly a row is spread, and how strongly it answers."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.layers.similarity import masked_softmax
from models.trace import AttentionSite


def entropy(weights: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows"]:
    """−Σ p·ln p in nats: 0 if one key has everything, ln n if n keys share alike."""
    return torch.special.entr(weights).sum(-1)


def gradient_norm(weights: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows"]:
    """‖∂ weights/∂ scores‖ = ‖diag(p) − p·pᵀ‖ (Frobenius), without the n × n matrix: √(Σp² − 2Σp³ + (Σp²)²), in double because
    near a settled softmax the three terms almost cancel."""
    p = weights.double()
    squares = p.square().sum(-1)
    return (squares - 2 * p.pow(3).sum(-1) + squares.square()).clamp(min=0).sqrt().to(weights.dtype)


@dataclass(frozen=True)
class Scaling:
    """What dividing q·k by `divisor` makes of one or more rows. `gradient` is gradient_norm: how strongly the weights
    answer when a score, q·k/divisor, moves."""

    divisor: float
    scores: Float[Tensor, "*rows key"]
    weights: Float[Tensor, "*rows key"]
    entropy: Float[Tensor, "*rows"]
    gradient: Float[Tensor, "*rows"]

    @property
    def product_gradient(self) -> Float[Tensor, "*rows"]:
        """‖∂ weights/∂(q·k)‖: how strongly the weights answer when a product q·k moves, which by the chain rule is the
        gradient divided by the divisor. This is what reaches q and k."""
        return self.gradient / self.divisor


def scaling(
    raw: Float[Tensor, "*rows key"],
    allowed: Bool[Tensor, "*rows key"],
    divisor: float,
    added: Tensor | float = 0.0,
) -> Scaling:
    """softmax(q·k/divisor + added) over the allowed keys. √d_head is the model's own divisor, 1 leaves scaling out (§3.2.1)."""
    if not divisor > 0:
        raise ValueError(f"the divisor must be positive, not {divisor}")
    scores = raw / divisor + added
    weights = masked_softmax(scores[..., None, :], allowed[..., None, :])[..., 0, :]
    return Scaling(divisor, scores, weights, entropy(weights), gradient_norm(weights))


def raw_scores(site: AttentionSite, head: int, batch: int = 0) -> Float[Tensor, "query key"]:
    """q·k of one head, with the terms that are divided together with it, neither scaled nor masked."""
    every, key_head = torch.arange(site.n_query), head // (site.n_heads // site.k.shape[1])
    divided = (
        term.divisor * term.scores(head, every, site.n_key, batch)
        for term in site.terms
        if term.divisor
    )
    return site.q[batch, head] @ site.k[batch, key_head].T + sum(divided)


def undivided_scores(site: AttentionSite, head: int, batch: int = 0) -> Float[Tensor, "query key"]:
    """What is added to one head's scores after the division; 0 in most models."""
    every = torch.arange(site.n_query)
    added = (term.scores(head, every, site.n_key, batch) for term in site.terms if not term.divisor)
    return sum(added, torch.zeros(site.n_query, site.n_key))
