"""Similarity of queries and keys: dot, scaled dot, cosine, general, additive.

Each is a function and a layer that learns its parameters. The functions are the readable route, and
a trace derives its scores with them. A similarity that is a dot product of transformed q and k runs
on torch's fused kernel; only the additive one cannot.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from models.layers.masks import Mask

Scores = Float[Tensor, "*b query key"]


def dot(q: Float[Tensor, "*b query d"], k: Float[Tensor, "*b key d"]) -> Scores:
    """Return q·k (Luong et al. 2015)."""
    return q @ k.transpose(-2, -1)


def scaled_dot(q: Float[Tensor, "*b query d"], k: Float[Tensor, "*b key d"]) -> Scores:
    """Return q·k/√d (Vaswani et al. 2017, eq. 1)."""
    return dot(q, k) / math.sqrt(q.shape[-1])


def cosine(
    q: Float[Tensor, "*b query d"], k: Float[Tensor, "*b key d"], log_t: Float[Tensor, ""]
) -> Scores:
    """Return t·cos(q, k) with a learned inverse temperature t = exp(log_t) (Henry et al. 2020).

    Without t a softmax of cosines could not be sharp.
    """
    return log_t.exp() * dot(F.normalize(q, dim=-1), F.normalize(k, dim=-1))


def general(
    q: Float[Tensor, "*b query d"], k: Float[Tensor, "*b key e"], M: Float[Tensor, "d e"]
) -> Scores:
    """Return q·M·k, a bilinear form (Luong et al. 2015, "general")."""
    return dot(q @ M, k)


def additive(
    q: Float[Tensor, "*b query d"],
    k: Float[Tensor, "*b key e"],
    W: Float[Tensor, "a d"],
    U: Float[Tensor, "a e"],
    v: Float[Tensor, "a"],
) -> Scores:
    """Return v·tanh(W q + U k), a multi-layer perceptron (Bahdanau et al. 2015, §A.1.2)."""
    return (F.linear(q, W).unsqueeze(-2) + F.linear(k, U).unsqueeze(-3)).tanh() @ v


@dataclass(frozen=True)
class SimilarityKind:
    """One similarity: its function, formula and initial parameters.

    `initialise` takes the sizes of queries, keys and hidden units; `initialisation` describes the
    result in words, empty without parameters.
    """

    function: Callable[..., Tensor]
    formula: str
    initialise: Callable[[int, int, int], dict[str, Tensor]] = lambda d, e, a: {}
    initialisation: str = ""


def _initialise_cosine(d: int, e: int, a: int) -> dict[str, Tensor]:
    return {"log_t": torch.tensor(math.log(10.0))}


def _initialise_general(d: int, e: int, a: int) -> dict[str, Tensor]:
    # I/√d: at first the scaled dot product
    return {"M": torch.zeros(d, e).fill_diagonal_(1 / math.sqrt(d))}


def _initialise_additive(d: int, e: int, a: int) -> dict[str, Tensor]:
    W, U, v = torch.empty(a, d), torch.empty(a, e), torch.empty(a)
    return {
        "W": nn.init.xavier_uniform_(W),
        "U": nn.init.xavier_uniform_(U),
        "v": nn.init.normal_(v, std=a**-0.5),
    }


SIMILARITIES = {
    "dot": SimilarityKind(dot, "q·k"),
    "scaled dot": SimilarityKind(scaled_dot, "q·k/√d"),
    "cosine": SimilarityKind(cosine, "t·cos(q, k)", _initialise_cosine, "t is 10"),
    "general": SimilarityKind(
        general, "q·M·k", _initialise_general, "M is I/√d, which gives the scaled dot product"
    ),
    "additive": SimilarityKind(
        additive, "v·tanh(W q + U k)", _initialise_additive, "W, U and v are drawn at random"
    ),
}


def times(
    q: Float[Tensor, "*b query d"], k: Float[Tensor, "*b key d"], s: Float[Tensor, ""]
) -> Scores:
    """Return s·q·k with a constant s of the model."""
    return s * dot(q, k)


def capped(
    q: Float[Tensor, "*b query d"],
    k: Float[Tensor, "*b key d"],
    s: Float[Tensor, ""],
    c: Float[Tensor, ""],
) -> Scores:
    """Return c·tanh(s·q·k/c), which stays between −c and c (Gemma 2)."""
    return c * torch.tanh(times(q, k, s) / c)


CAPPED = "capped dot"  # third-party models only
DOT_TIMES = "dot times a constant"  # third-party models only


@dataclass(frozen=True)
class AttentionSimilarity:
    """A similarity with its learned parameters; called with q and k it returns their scores."""

    name: str = "scaled dot"
    learned: dict[str, Tensor] = field(default_factory=dict)

    def __call__(self, q: Float[Tensor, "*b query d"], k: Float[Tensor, "*b key e"]) -> Scores:
        return self._kind.function(q, k, **self.learned)

    @property
    def formula(self) -> str:
        return self._kind.formula

    @property
    def _kind(self) -> SimilarityKind:
        return SIMILARITIES.get(self.name) or _CONSTANTS[self.name]

    def map_tensors(self, transform: Callable[[Tensor], Tensor]) -> "AttentionSimilarity":
        """Return the similarity with `transform` applied to its parameters."""
        return replace(
            self, learned={name: transform(number) for name, number in self.learned.items()}
        )


_CONSTANTS = {
    DOT_TIMES: SimilarityKind(times, "s·q·k"),
    CAPPED: SimilarityKind(capped, "c·tanh(s·q·k/c)"),
}


def capped_dot(scale: float, cap: float) -> AttentionSimilarity:
    """Return the dot product times a scale, kept below a cap."""
    return AttentionSimilarity(CAPPED, {"s": torch.tensor(scale), "c": torch.tensor(cap)})


def of_scale(scale: float | None, d_head: int) -> AttentionSimilarity:
    """Return the dot product times a scale (None for 1/√d_head) as a named similarity."""
    if scale is None or math.isclose(scale, d_head**-0.5, rel_tol=1e-6):
        return AttentionSimilarity("scaled dot")
    return (
        AttentionSimilarity("dot")
        if scale == 1
        else AttentionSimilarity(DOT_TIMES, {"s": torch.tensor(scale)})
    )


def fused_attention(
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch head key d_head"],
    v: Float[Tensor, "batch head key d_v"],
    mask: Mask,
    scale: float | None,
) -> Float[Tensor, "batch head query d_v"]:
    """Return softmax of the masked scale·q·k (None: 1/√d_head) times v, by torch's fused kernel."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.additive(q.dtype), scale=scale)


class LearnedSimilarity(nn.Module):
    """The parameters of one attention's similarity, shared by its heads.

    `kernel` computes attention by dot products; training may replace it (compiled_layers).

    Raises:
        ValueError: the name is not one of SIMILARITIES.
    """

    log_t: Tensor  # of "cosine"
    M: Tensor  # of "general"
    W: Tensor  # of "additive", as U and v
    U: Tensor
    v: Tensor

    def __init__(
        self, name: str, d_query: int, d_key: int | None = None, d_hidden: int | None = None
    ) -> None:
        super().__init__()
        if name not in SIMILARITIES:
            raise ValueError(f"similarity must be one of {', '.join(SIMILARITIES)}, not {name!r}")
        self.name, self.kernel = name, fused_attention
        for parameter, value in (
            SIMILARITIES[name].initialise(d_query, d_key or d_query, d_hidden or d_query).items()
        ):
            self.register_parameter(parameter, nn.Parameter(value))

    def detached(self) -> AttentionSimilarity:
        """Return the similarity with the parameters learned so far, without gradients."""
        parameters = {name: p.detach() for name, p in self._parameters.items() if p is not None}
        return AttentionSimilarity(self.name, parameters)

    def forward(self, q: Float[Tensor, "*b query d"], k: Float[Tensor, "*b key e"]) -> Scores:
        return SIMILARITIES[self.name].function(q, k, **dict(self.named_parameters()))

    def attend(
        self,
        q: Float[Tensor, "batch head query d_head"],
        k: Float[Tensor, "batch head key d_head"],
        v: Float[Tensor, "batch head key d_v"],
        mask: Mask,
    ) -> Float[Tensor, "batch head query d_v"]:
        """Return softmax of the masked scores · v, by a fused kernel where possible."""
        if self.name == "additive":
            return masked_softmax(self(q, k), mask.blocking) @ v
        if self.name == "cosine":
            q, k = F.normalize(q, dim=-1) * self.log_t.exp(), F.normalize(k, dim=-1)
        if self.name == "general":
            q = q @ self.M
        return self.kernel(q, k, v, mask, None if self.name == "scaled dot" else 1.0)


def masked_softmax(
    scores: Scores, allowed: Bool[Tensor, "*c #query #key"] | None
) -> Float[Tensor, "*b query key"]:
    """Return the softmax over keys; blocked cells and rows with nothing allowed are exactly 0."""
    if allowed is None or allowed.all():
        return scores.softmax(-1)
    masked = scores.masked_fill(~allowed, -torch.inf)
    weights = masked.softmax(-1)
    # faster than searching `allowed` for such rows
    if not bool((masked.detach().amax(-1) == -torch.inf).any()):
        return weights
    return weights.masked_fill(~allowed.any(-1, keepdim=True), 0.0)
