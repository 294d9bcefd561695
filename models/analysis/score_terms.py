"""A score as a sum: query and key as compared, their elementwise products, and the terms."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from models.layers.similarity import CAPPED, DOT_TIMES, AttentionSimilarity


@dataclass(frozen=True)
class ScoreComparison:
    """One query and every key under a similarity; the terms of a key sum to its score."""

    q: Float[Tensor, "d"]  # the query as it is compared: q, q/‖q‖, q·M or W q
    k: Float[Tensor, "key d"]  # the keys as they are compared: k, k/‖k‖, k or U k
    # e = q∘k; additive: tanh(q + k)
    elementwise: Float[Tensor, "key d"]
    # e; scaled dot product: e/√d; cosine: t·e; additive: v∘e
    terms: Float[Tensor, "key d"]


def compared_vectors(
    similarity: AttentionSimilarity, q: Float[Tensor, "*query d"], k: Float[Tensor, "*key e"]
) -> tuple[Float[Tensor, "*query f"], Float[Tensor, "*key f"]]:
    """Return queries and keys as they are compared, vector by vector."""
    learned = similarity.learned
    if similarity.name == "additive":
        return F.linear(q, learned["W"]), F.linear(k, learned["U"])
    if similarity.name == "cosine":
        return F.normalize(q, dim=-1), F.normalize(k, dim=-1)
    return (q @ learned["M"], k) if similarity.name == "general" else (q, k)


def compare_scores(
    similarity: AttentionSimilarity, q: Float[Tensor, "d"], k: Float[Tensor, "key e"]
) -> ScoreComparison:
    """Compare one query with every key, by the readable route of models/layers/similarity.py."""
    q, k = compared_vectors(similarity, q, k)
    elementwise = (q + k).tanh() if similarity.name == "additive" else q * k
    terms = {
        "scaled dot": lambda: elementwise / q.shape[-1] ** 0.5,
        "cosine": lambda: similarity.learned["log_t"].exp() * elementwise,
        "additive": lambda: similarity.learned["v"] * elementwise,
        DOT_TIMES: lambda: similarity.learned["s"] * elementwise,
        CAPPED: lambda: _capped_terms(
            similarity.learned["s"] * elementwise, similarity.learned["c"]
        ),
    }.get(similarity.name, lambda: elementwise)()
    return ScoreComparison(q, k, elementwise, terms)


def _capped_terms(terms: Float[Tensor, "key d"], cap: Float[Tensor, ""]) -> Float[Tensor, "key d"]:
    """Return terms with the sum cap·tanh(sum/cap), all of a key reduced by one factor."""
    total = terms.sum(-1, keepdim=True)
    factor = torch.where(total == 0, 1.0, cap * torch.tanh(total / cap) / total)
    return factor * terms
