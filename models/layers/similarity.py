"""How alike a query and a key are: dot, scaled dot, cosine, general, additive; each a function and a layer that learns it.

The functions are the readable route and what a trace works scores out with. Where a similarity is a dot product of
something, the layer hands that something to torch's fused kernel; only the additive one cannot be fused.
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
    """q·k (Luong et al. 2015)."""
    return q @ k.transpose(-2, -1)


def scaled_dot(q: Float[Tensor, "*b query d"], k: Float[Tensor, "*b key d"]) -> Scores:
    """q·k/√d (Vaswani et al. 2017, eq. 1)."""
    return dot(q, k) / math.sqrt(q.shape[-1])


def cosine(
    q: Float[Tensor, "*b query d"], k: Float[Tensor, "*b key d"], log_t: Float[Tensor, ""]
) -> Scores:
    """t·cos(q, k), with a learned inverse temperature t = exp(log_t), so that a softmax can be sharp (Henry et al. 2020)."""
    return log_t.exp() * dot(F.normalize(q, dim=-1), F.normalize(k, dim=-1))


def general(
    q: Float[Tensor, "*b query d"], k: Float[Tensor, "*b key e"], M: Float[Tensor, "d e"]
) -> Scores:
    """q·M·k, a bilinear form (Luong et al. 2015, "general")."""
    return dot(q @ M, k)


def additive(
    q: Float[Tensor, "*b query d"],
    k: Float[Tensor, "*b key e"],
    W: Float[Tensor, "a d"],
    U: Float[Tensor, "a e"],
    v: Float[Tensor, "a"],
) -> Scores:
    """v·tanh(W q + U k), a multi-layer perceptron (Bahdanau et al. 2015, §A.1.2)."""
    return (F.linear(q, W).unsqueeze(-2) + F.linear(k, U).unsqueeze(-3)).tanh() @ v


@dataclass(frozen=True)
class Kind:
    """One similarity: its function, its formula, and how its parameters are initialised for queries of d, keys of e, a hidden
    units; `initialisation` says so in words, empty where there are none."""

    function: Callable[..., Tensor]
    formula: str
    initialise: Callable[[int, int, int], dict[str, Tensor]] = lambda d, e, a: {}
    initialisation: str = ""


def _initialise_cosine(d: int, e: int, a: int) -> dict[str, Tensor]:
    return {"log_t": torch.tensor(math.log(10.0))}


def _initialise_general(d: int, e: int, a: int) -> dict[str, Tensor]:
    return {"M": torch.eye(d, e) / math.sqrt(d)}  # at first the scaled dot product


def _initialise_additive(d: int, e: int, a: int) -> dict[str, Tensor]:
    W, U = torch.empty(a, d), torch.empty(a, e)
    return {
        "W": nn.init.xavier_uniform_(W),
        "U": nn.init.xavier_uniform_(U),
        "v": torch.randn(a) / math.sqrt(a),
    }


SIMILARITIES = {
    "dot": Kind(dot, "q·k"),
    "scaled dot": Kind(scaled_dot, "q·k/√d"),
    "cosine": Kind(cosine, "t·cos(q, k)", _initialise_cosine, "t is 10"),
    "general": Kind(
        general, "q·M·k", _initialise_general, "M is I/√d, which gives the scaled dot product"
    ),
    "additive": Kind(
        additive, "v·tanh(W q + U k)", _initialise_additive, "W, U and v are drawn at random"
    ),
}


def times(
    q: Float[Tensor, "*b query d"], k: Float[Tensor, "*b key d"], s: Float[Tensor, ""]
) -> Scores:
    """s·q·k, with a constant s of the model's own."""
    return s * dot(q, k)


TIMES = "dot times a constant"  # of models of others; no model is made with it here


@dataclass(frozen=True)
class Similarity:
    """A similarity with the numbers it has learned; called with q and k it gives their scores, (query, key)."""

    name: str = "scaled dot"
    learned: dict[str, Tensor] = field(default_factory=dict)

    def __call__(self, q: Tensor, k: Tensor) -> Scores:
        return self._kind.function(q, k, **self.learned)

    @property
    def formula(self) -> str:
        return self._kind.formula

    @property
    def _kind(self) -> Kind:
        return SIMILARITIES.get(self.name) or Kind(times, "s·q·k")

    def map_tensors(self, transform: Callable[[Tensor], Tensor]) -> "Similarity":
        """With its numbers after `transform`."""
        return replace(
            self, learned={name: transform(number) for name, number in self.learned.items()}
        )


def of_scale(scale: float | None, d_head: int) -> Similarity:
    """The dot product times a scale, None for 1/√d_head, under its name."""
    if scale is None or math.isclose(scale, d_head**-0.5, rel_tol=1e-6):
        return Similarity("scaled dot")
    return Similarity("dot") if scale == 1 else Similarity(TIMES, {"s": torch.tensor(scale)})


class LearnedSimilarity(nn.Module):
    """The parameters of one attention's similarity, shared by its heads: q (…, query, d), k (…, key, e).

    Raises ValueError for a name that is not one of SIMILARITIES."""

    def __init__(
        self, name: str, d_query: int, d_key: int | None = None, d_hidden: int | None = None
    ) -> None:
        super().__init__()
        if name not in SIMILARITIES:
            raise ValueError(f"similarity must be one of {', '.join(SIMILARITIES)}, not {name!r}")
        self.name = name
        for parameter, value in (
            SIMILARITIES[name].initialise(d_query, d_key or d_query, d_hidden or d_query).items()
        ):
            self.register_parameter(parameter, nn.Parameter(value))

    def detached(self) -> Similarity:
        """What it has learned so far, without gradients."""
        return Similarity(self.name, {name: p.detach() for name, p in self._parameters.items()})

    def forward(self, q: Tensor, k: Tensor) -> Scores:
        return SIMILARITIES[self.name].function(q, k, **dict(self.named_parameters()))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        """softmax of the masked scores · v, (batch, head, query, d_v); by the fused kernel wherever there is one."""
        if self.name == "additive":
            return masked_softmax(self(q, k), mask.blocking) @ v
        if self.name == "cosine":
            q, k = F.normalize(q, dim=-1) * self.log_t.exp(), F.normalize(k, dim=-1)
        if self.name == "general":
            q = q @ self.M
        scale = None if self.name == "scaled dot" else 1.0
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask.additive(q.dtype), scale=scale
        )


def masked_softmax(
    scores: Scores, allowed: Bool[Tensor, "*c #query #key"] | None
) -> Float[Tensor, "*b query key"]:
    """softmax over keys; blocked cells are exactly 0, and so is a row with nothing allowed."""
    if allowed is None or allowed.all():
        return scores.softmax(-1)
    masked = scores.masked_fill(~allowed, -torch.inf)
    weights = masked.softmax(-1)
    if not bool(
        (masked.detach().amax(-1) == -torch.inf).any()
    ):  # quicker than to look through `allowed`
        return weights
    return weights.masked_fill(~allowed.any(-1, keepdim=True), 0.0)
