"""Parts of a Transformer: feed-forward, Add & Norm, layers, stacks (Vaswani et al. 2017, §3.1)."""

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from models.layers.attention import MultiHeadAttention
from models.layers.cache import Cache
from models.layers.dropout import Dropout
from models.layers.masks import Mask, SiteKind
from models.layers.sublayers import FEED_FORWARD, Sublayer
from models.trace import TracedModule, tap
from models.trace.lazy import LazyLinear

# name → function between W₁ and W₂, and its formula. GELU is x·Φ(x), by erf or in its tanh form
# (Hendrycks & Gimpel 2016)
ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "relu": (torch.relu, "max(0, ff_pre)"),
    "gelu": (F.gelu, "ff_pre·Φ(ff_pre)"),
    "gelu tanh": (
        partial(F.gelu, approximate="tanh"),
        "½·ff_pre·(1 + tanh(√(2/π)·(ff_pre + 0.044715·ff_pre³)))",
    ),
}
FUNCTIONS = {name: function for name, (function, _) in ACTIVATIONS.items()} | {"silu": F.silu}


@cache
def lowest(activation: str) -> float:
    """Return the lowest value of one of FUNCTIONS to 8 digits, 0 for ReLU."""
    return float(FUNCTIONS[activation](torch.linspace(-8, 0, 800_001, dtype=torch.float64)).min())


NORMAL_STD = 0.02  # of matrices initialised "normal"


class FeedForward(TracedModule):
    """FFN(x) = max(0, x·W₁ + b₁)·W₂ + b₂ (eq. 2), or with another of ACTIVATIONS."""

    path = "ff"

    def __init__(self, d_model: int, d_ff: int, stream: str, activation: str = "relu") -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"activation must be one of {', '.join(ACTIVATIONS)}, not {activation!r}"
            )
        self.stream, self.activation = stream, activation
        self.W_1 = nn.Linear(d_model, d_ff)
        self.W_2 = nn.Linear(d_ff, d_model)
        for projection in (self.W_1, self.W_2):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)

    def forward(
        self, x: Float[Tensor, "batch n d_model"], mark: str = ""
    ) -> Float[Tensor, "batch n d_model"]:
        """Apply it; `mark` is a prefix of the recorded names for a second stream of states."""
        activate, formula = ACTIVATIONS[self.activation]
        lazy: list[LazyLinear] = []  # lazy ff_post, the input of lazy ff_out

        def post() -> LazyLinear:
            lazy.append(LazyLinear.of(self.W_1, x, activate))
            return lazy[0]

        ff_pre = tap(
            self.path, f"{mark}ff_pre", self.W_1(x), self.stream, "d_ff",
            "x·W₁ + b₁", lambda: LazyLinear.of(self.W_1, x),
        )  # (batch, n, d_ff)  # fmt: skip
        ff_post = tap(
            self.path, f"{mark}ff_post", activate(ff_pre), self.stream, "d_ff", formula, post
        )  # (batch, n, d_ff)  # fmt: skip
        return tap(
            self.path, f"{mark}ff_out", self.W_2(ff_post), self.stream, "d_model",
            "ff_post·W₂ + b₂", lambda: LazyLinear.of(self.W_2, lazy[0]),
        )  # (batch, n, d_model)  # fmt: skip


class AddNorm(TracedModule):
    """Residual connection and LayerNorm.

    Post-LN, the paper's: LayerNorm(x + Sublayer(x)). Pre-LN: x + Sublayer(LayerNorm(x)) (Xiong et
    al. 2020).
    """

    path = "add_norm"

    def __init__(self, d_model: int, dropout: float, norm: str, stream: str) -> None:
        super().__init__()
        if norm not in ("post", "pre"):
            raise ValueError(f"norm must be post or pre, not {norm!r}")
        self.norm, self.stream = norm, stream
        self.formula = (
            "x + Sublayer(LayerNorm(x))" if norm == "pre" else "LayerNorm(x + Sublayer(x))"
        )
        self.layer_norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch n d_model"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "batch n d_model"]:
        if self.norm == "pre":
            normed = self.layer_norm(x)
            normed = tap(self.path, "normed", normed, self.stream, "d_model", "LayerNorm(x)")
            return x + self._drop(sublayer(normed))
        return self.layer_norm(x + self._drop(sublayer(x)))

    def _drop(self, x: Tensor) -> Tensor:
        # saves a decoding step nine calls that do nothing
        return self.dropout(x) if self.training else x

    def around(
        self, path: str, role: str, out: str, before: str, after: str, activation: str = ""
    ) -> Sublayer:
        """Declare the sublayer of this path and role, with the names that a run records."""
        layer = path.rpartition(".")[0]
        normed = f"{self.path}.normed" if self.norm == "pre" else ""
        return Sublayer(
            path,
            role,
            self.stream,
            f"{layer}.{before}",
            f"{path}.{out}",
            f"{layer}.{after}",
            self.norm,
            self.layer_norm,
            normed,
            activation,
        )


class SelfLayer(TracedModule):
    """Self-attention of one kind, then feed-forward, each inside Add & Norm.

    A layer of an encoder, or of a decoder without cross-attention.
    """

    path = "layers.0"

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int,
        dropout: float,
        norm: str,
        similarity: str,
        *,
        kind: SiteKind,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        self.stream = kind.query_stream
        self.self_attn = MultiHeadAttention(d_model, n_heads, kind, similarity)
        self.ff = FeedForward(d_model, d_ff, self.stream, activation)
        self.add_norm_1 = AddNorm(d_model, dropout, norm, self.stream)
        self.add_norm_2 = AddNorm(d_model, dropout, norm, self.stream)

    def forward(
        self, x: Float[Tensor, "batch n d_model"], mask: Mask, cache: Cache | None = None
    ) -> Float[Tensor, "batch n d_model"]:
        x = tap(
            self.path,
            "resid_pre",
            x,
            self.stream,
            "d_model",
            "residual stream before self-attention",
        )
        x = self.add_norm_1(x, lambda h: self.self_attn(h, h, mask, cache))
        x = tap(self.path, "resid_mid", x, self.stream, "d_model", self.add_norm_1.formula)
        x = self.add_norm_2(x, self.ff)
        return tap(self.path, "resid_post", x, self.stream, "d_model", self.add_norm_2.formula)

    @property
    def sublayers(self) -> tuple[Sublayer, ...]:
        return (
            self.add_norm_1.around(
                self.self_attn.path, self.self_attn.kind.role, "attn_out", "resid_pre", "resid_mid"
            ),
            self.add_norm_2.around(
                self.ff.path, FEED_FORWARD, "ff_out", "resid_mid", "resid_post", self.ff.activation
            ),
        )


class CrossLayer(TracedModule):
    """Masked self-attention, cross-attention and feed-forward, each inside Add & Norm."""

    path = "layers.0"

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int,
        dropout: float,
        norm: str,
        similarity: str,
        *,
        kind: SiteKind,
        cross: SiteKind,
    ) -> None:
        super().__init__()
        self.stream = kind.query_stream
        self.self_attn = MultiHeadAttention(d_model, n_heads, kind, similarity)
        self.cross_attn = MultiHeadAttention(d_model, n_heads, cross, similarity)
        self.ff = FeedForward(d_model, d_ff, self.stream)
        self.add_norm_1 = AddNorm(d_model, dropout, norm, self.stream)
        self.add_norm_2 = AddNorm(d_model, dropout, norm, self.stream)
        self.add_norm_3 = AddNorm(d_model, dropout, norm, self.stream)

    def forward(
        self,
        x: Float[Tensor, "batch n d_model"],
        memory: Float[Tensor, "batch m d_model"],
        self_mask: Mask,
        cross_mask: Mask,
        cache: Cache | None = None,
    ) -> Float[Tensor, "batch n d_model"]:
        x = tap(
            self.path,
            "resid_pre",
            x,
            self.stream,
            "d_model",
            "residual stream before self-attention",
        )
        x = self.add_norm_1(x, lambda h: self.self_attn(h, h, self_mask, cache))
        x = tap(self.path, "resid_mid", x, self.stream, "d_model", self.add_norm_1.formula)
        x = self.add_norm_2(x, lambda h: self.cross_attn(h, memory, cross_mask, cache))
        x = tap(self.path, "resid_mid_cross", x, self.stream, "d_model", self.add_norm_2.formula)
        x = self.add_norm_3(x, self.ff)
        return tap(self.path, "resid_post", x, self.stream, "d_model", self.add_norm_3.formula)

    @property
    def sublayers(self) -> tuple[Sublayer, ...]:
        return (
            self.add_norm_1.around(
                self.self_attn.path, self.self_attn.kind.role, "attn_out", "resid_pre", "resid_mid"
            ),
            self.add_norm_2.around(
                self.cross_attn.path,
                self.cross_attn.kind.role,
                "attn_out",
                "resid_mid",
                "resid_mid_cross",
            ),
            self.add_norm_3.around(
                self.ff.path,
                FEED_FORWARD,
                "ff_out",
                "resid_mid_cross",
                "resid_post",
                self.ff.activation,
            ),
        )


class Stack(nn.Module):
    """N layers and, under pre-LN, a last LayerNorm.

    Init "scaled": the last matrix of each of the stack's n sublayers, W_O or W_2, starts 1/√n times
    as large (Radford et al. 2019, §2.3). A token's own vector then outweighs what its neighbours
    share, and positions stay distinguishable while the learning rate rises. Init "normal": every
    matrix starts N(0, 0.02²) (Radford et al. 2018, §4.1; Devlin et al. 2019). Layers add little at
    first, and Adam, whose steps do not depend on a weight's size, turns small weights sooner.
    """

    def __init__(
        self,
        make: Callable[[], nn.Module],
        n_layers: int,
        d_model: int,
        norm: str,
        init: str = "xavier",
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(make() for _ in range(n_layers))
        self.last_norm = nn.LayerNorm(d_model) if norm == "pre" else nn.Identity()
        if init == "scaled":
            self._scale_sublayers()
        if init == "normal":
            for matrix in self.parameters():
                if matrix.dim() == 2:
                    nn.init.normal_(matrix, std=NORMAL_STD)

    @torch.no_grad()
    def _scale_sublayers(self) -> None:
        last = {MultiHeadAttention: "W_O", FeedForward: "W_2"}
        matrices = [
            getattr(module, last[type(module)]).weight
            for module in self.modules()
            if type(module) in last
        ]
        for matrix in matrices:
            matrix *= len(matrices) ** -0.5

    def forward(
        self, x: Float[Tensor, "batch n d_model"], *rest: object
    ) -> Float[Tensor, "batch n d_model"]:
        for layer in self.layers:
            x = layer(x, *rest)
        return self.last_norm(x)

    @property
    def sublayers(self) -> tuple[Sublayer, ...]:
        """Sublayers of its layers, from first to last."""
        layers = cast(Iterable[SelfLayer | CrossLayer], self.layers)
        return tuple(sublayer for layer in layers for sublayer in layer.sublayers)
