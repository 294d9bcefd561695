"""The parts of a Transformer layer: feed-forward, Add & Norm, encoder layer, decoder layer (Vaswani et al. 2017, §3.1)."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.layers.attention import Cache, MultiHeadAttention
from models.layers.masks import Mask
from models.trace import current, tap
from models.trace.deferred import Product


class FeedForward(nn.Module):
    """FFN(x) = max(0, x·W₁ + b₁)·W₂ + b₂ (eq. 2), the same at every position."""

    path = "ff"

    def __init__(self, d_model: int, d_ff: int, stream: str) -> None:
        super().__init__()
        self.stream = stream
        self.W_1 = nn.Linear(d_model, d_ff)
        self.W_2 = nn.Linear(d_ff, d_model)
        for projection in (self.W_1, self.W_2):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)

    def forward(self, x: Float[Tensor, "batch n d_model"]) -> Float[Tensor, "batch n d_model"]:
        ff_post = self.W_1(x).relu()                                     # (batch, n, d_ff)
        if (recording := current()) is not None:
            pre, post = Product.of(self.W_1, x), Product.of(self.W_1, x, torch.relu)
            recording.tap(self.path, "ff_pre", pre, self.stream, "d_ff", "x·W₁ + b₁")
            recording.tap(self.path, "ff_post", post, self.stream, "d_ff", "max(0, ff_pre)")
        return self.W_2(ff_post)


class AddNorm(nn.Module):
    """Post-LN, the paper's: LayerNorm(x + Sublayer(x)). Pre-LN: x + Sublayer(LayerNorm(x)) (Xiong et al. 2020)."""

    def __init__(self, d_model: int, dropout: float, norm: str) -> None:
        super().__init__()
        if norm not in ("post", "pre"):
            raise ValueError(f"norm must be post or pre, not {norm!r}")
        self.norm = norm
        self.layer_norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.norm == "pre":
            return x + self._dropped(sublayer(self.layer_norm(x)))
        return self.layer_norm(x + self._dropped(sublayer(x)))

    def _dropped(self, x: Tensor) -> Tensor:
        return self.dropout(x) if self.training else x   # torch's own costs as much as a LayerNorm even then

    @property
    def formula(self) -> str:
        return "x + Sublayer(LayerNorm(x))" if self.norm == "pre" else "LayerNorm(x + Sublayer(x))"


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each inside Add & Norm."""

    path = "encoder.layers.0"

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float, norm: str, similarity: str) -> None:
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, n_heads, "encoder_self", similarity)
        self.ff = FeedForward(d_model, d_ff, "source")
        self.add_norm_1 = AddNorm(d_model, dropout, norm)
        self.add_norm_2 = AddNorm(d_model, dropout, norm)

    def forward(self, x: Float[Tensor, "batch n d_model"], mask: Mask) -> Float[Tensor, "batch n d_model"]:
        tap(self.path, "resid_pre", x, "source", "d_model", "residual stream before self-attention")
        x = self.add_norm_1(x, lambda h: self.self_attn(h, h, mask))
        tap(self.path, "resid_mid", x, "source", "d_model", self.add_norm_1.formula)
        x = self.add_norm_2(x, self.ff)
        tap(self.path, "resid_post", x, "source", "d_model", self.add_norm_2.formula)
        return x


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention to the encoder's output, then feed-forward, each inside Add & Norm."""

    path = "decoder.layers.0"

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float, norm: str, similarity: str) -> None:
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, n_heads, "decoder_self", similarity)
        self.cross_attn = MultiHeadAttention(d_model, n_heads, "cross", similarity)
        self.ff = FeedForward(d_model, d_ff, "target")
        self.add_norm_1 = AddNorm(d_model, dropout, norm)
        self.add_norm_2 = AddNorm(d_model, dropout, norm)
        self.add_norm_3 = AddNorm(d_model, dropout, norm)

    def forward(
        self,
        x: Float[Tensor, "batch n d_model"],
        memory: Float[Tensor, "batch m d_model"],
        self_mask: Mask,
        cross_mask: Mask,
        cache: Cache | None = None,
    ) -> Float[Tensor, "batch n d_model"]:
        tap(self.path, "resid_pre", x, "target", "d_model", "residual stream before self-attention")
        x = self.add_norm_1(x, lambda h: self.self_attn(h, h, self_mask, cache))
        tap(self.path, "resid_mid", x, "target", "d_model", self.add_norm_1.formula)
        x = self.add_norm_2(x, lambda h: self.cross_attn(h, memory, cross_mask, cache))
        tap(self.path, "resid_mid_cross", x, "target", "d_model", self.add_norm_2.formula)
        x = self.add_norm_3(x, self.ff)
        tap(self.path, "resid_post", x, "target", "d_model", self.add_norm_3.formula)
        return x
