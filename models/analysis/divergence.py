"""How far apart two rows of attention weights are."""

import torch
from jaxtyping import Float
from torch import Tensor

MOST = 1.0  # bits, of two rows with nothing in common


def jensen_shannon(
    p: Float[Tensor, "*rows key"], q: Float[Tensor, "*rows key"]
) -> Float[Tensor, "*rows"]:
    """JS(p, q) = H((p + q)/2) − (H(p) + H(q))/2 in bits, H(p) = −Σ p·log₂ p (Lin 1991): 0 if the rows are the same, 1 if
    no key has weight in both. Symmetric, and finite where one row is 0."""
    half = (p + q) / 2
    nats = _entropy(half) - (_entropy(p) + _entropy(q)) / 2
    return (nats / torch.log(torch.tensor(2.0))).clamp(min=0)


def _entropy(p: Tensor) -> Tensor:
    return torch.special.entr(p).sum(-1)
