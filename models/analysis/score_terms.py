"""A score as a sum: what a query and a key become, how they meet number by number, and the terms that add up."""

from dataclasses import dataclass

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from models.layers.similarity import TIMES, Similarity


@dataclass(frozen=True)
class Comparison:
    """One query beside every key under a similarity; the terms of a key sum to its score."""

    q: Float[Tensor, "d"]  # the query as it is compared: q, q/‖q‖, q·M or W q
    k: Float[Tensor, "key d"]  # the keys as they are compared: k, k/‖k‖, k or U k
    elementwise: Float[
        Tensor, "key d"
    ]  # e = q∘k, number by number; for the additive one tanh(q + k)
    terms: Float[
        Tensor, "key d"
    ]  # e; for the scaled dot product e/√d, the cosine t·e, the additive one v∘e


def sides(
    similarity: Similarity, q: Float[Tensor, "*query d"], k: Float[Tensor, "*key e"]
) -> tuple[Float[Tensor, "*query f"], Float[Tensor, "*key f"]]:
    """Queries and keys as they are compared, vector by vector."""
    learned = similarity.learned
    if similarity.name == "additive":
        return F.linear(q, learned["W"]), F.linear(k, learned["U"])
    if similarity.name == "cosine":
        return F.normalize(q, dim=-1), F.normalize(k, dim=-1)
    return (q @ learned["M"], k) if similarity.name == "general" else (q, k)


def compare(similarity: Similarity, q: Float[Tensor, "d"], k: Float[Tensor, "key e"]) -> Comparison:
    """One query beside every key, by the readable route of models/layers/similarity.py taken apart."""
    q, k = sides(similarity, q, k)
    elementwise = (q + k).tanh() if similarity.name == "additive" else q * k
    terms = {
        "scaled dot": lambda: elementwise / q.shape[-1] ** 0.5,
        "cosine": lambda: similarity.learned["log_t"].exp() * elementwise,
        "additive": lambda: similarity.learned["v"] * elementwise,
        TIMES: lambda: similarity.learned["s"] * elementwise,
    }.get(similarity.name, lambda: elementwise)()
    return Comparison(q, k, elementwise, terms)
