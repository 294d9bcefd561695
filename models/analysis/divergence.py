"""Divergence between rows of attention weights."""

import torch
from jaxtyping import Float
from torch import Tensor

MAX_DIVERGENCE = 1.0  # bits, for two rows without a common key


def jensen_shannon(
    p: Float[Tensor, "*rows key"], q: Float[Tensor, "*rows key"]
) -> Float[Tensor, "*rows"]:
    """JS(p, q) = H((p + q)/2) − (H(p) + H(q))/2 in bits, with H(p) = −Σ p·log₂ p (Lin 1991).

    It is 0 for equal rows, 1 if no key has weight in both; symmetric, and finite if one row is 0.
    """
    half = (p + q) / 2
    nats = _entropy(half) - (_entropy(p) + _entropy(q)) / 2
    return (nats / torch.log(torch.tensor(2.0))).clamp(min=0)


def _entropy(p: Float[Tensor, "*rows key"]) -> Float[Tensor, "*rows"]:
    return torch.special.entr(p).sum(-1)
