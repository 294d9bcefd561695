"""Attention(Q, K, V) = softmax(QKᵀ/√d_k)·V and its multi-head form (Vaswani et al. 2017, eq. 1 and §3.2.2).

The functions of `models/layers/similarity.py` and `weighted_sum` are the readable route; the module runs torch's fused kernel.
Tests hold one against the other.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.layers.masks import Mask, SiteKind
from models.layers.similarity import LearnedSimilarity
from models.trace import current
from models.trace.deferred import Product
from models.trace.edits import edited


def weighted_sum(weights: Float[Tensor, "*b query key"], v: Float[Tensor, "*b key d_head"]) -> Tensor:
    """Each query's mixture of the values."""
    return weights @ v


class Cache:
    """What one decoding run keeps of its past, by the path of the module that made it: keys and values, or an RNN's state.
    Every tensor has its batch first."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Tensor, ...]] = {}
        self._growing: set[str] = set()      # what is kept there has a place for every target position

    def __contains__(self, path: str) -> bool:
        return path in self._kept

    def get(self, path: str) -> tuple[Tensor, ...]:
        return self._kept[path]

    def put(self, path: str, *tensors: Tensor) -> None:
        """Keep these instead of what was kept there before."""
        self._kept[path] = tensors

    def append(self, path: str, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add the new positions' keys and values; returns all of them, (batch, head, key, d_head)."""
        if path in self._kept:
            old_k, old_v = self._kept[path]
            k, v = torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)
        self._kept[path] = (k, v)
        self._growing.add(path)
        return k, v

    def cut(self, n: int) -> None:
        """Forget the keys and values of all target positions but the first n; a recurrent state has no way back."""
        for path in self._growing:
            k, v = self._kept[path]
            self._kept[path] = (k[:, :, :n], v[:, :, :n])

    def reorder(self, rows: Tensor) -> None:
        """Keep these batch rows, in this order (beam search)."""
        self._kept = {path: tuple(t[rows] for t in tensors) for path, tensors in self._kept.items()}


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head₁ … head_h)·W_O. `kind` says where Q, K and V come from;
    `similarity` is one of models.layers.similarity.KINDS."""

    path = "attention"   # its place in the module tree; the model that owns it sets it once

    def __init__(self, d_model: int, n_heads: int, kind: SiteKind, similarity: str = "scaled dot") -> None:
        super().__init__()
        if n_heads < 1 or d_model % n_heads:
            raise ValueError(f"d_model ({d_model}) must be divisible by n_heads ({n_heads})")
        self.kind, self.n_heads, self.d_head = kind, n_heads, d_model // n_heads
        self.W_Q = nn.Linear(d_model, d_model)
        self.W_K = nn.Linear(d_model, d_model)
        self.W_V = nn.Linear(d_model, d_model)
        self.W_O = nn.Linear(d_model, d_model)
        for projection in (self.W_Q, self.W_K, self.W_V, self.W_O):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)
        self.similarity = LearnedSimilarity(similarity, self.d_head)

    @property
    def projections(self) -> dict[str, tuple[Tensor, Tensor]]:
        """W_Q W_K W_V W_O → (weight, bias), without gradients."""
        layers = {"W_Q": self.W_Q, "W_K": self.W_K, "W_V": self.W_V, "W_O": self.W_O}
        return {name: (layer.weight.detach(), layer.bias.detach()) for name, layer in layers.items()}

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"],
        mask: Mask,
        cache: Cache | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        """Queries from x, keys and values from memory (x itself in self-attention)."""
        q = self._split(self.W_Q(x))                                     # (batch, head, query, d_head)
        k, v = self._keys_values(memory, cache)                          # (batch, head, key, d_head)
        mask = edited(mask, self.kind.name, self.path, self.n_heads, q.shape[2], k.shape[2], q.device)
        out = self.similarity.attend(q, k, v, mask.blocking)             # (batch, head, query, d_head)
        joined = out.transpose(1, 2).flatten(2)                          # (batch, query, d_model)
        if (recording := current()) is not None:
            recording.site(self, x, memory, q, k, v, out, mask)
            attn_out = Product.of(self.W_O, joined)
            recording.tap(self.path, "attn_out", attn_out, self.kind.query_stream, "d_model", "Concat(head_out)·W_O")
        return self.W_O(joined)

    def _keys_values(self, memory: Tensor, cache: Cache | None) -> tuple[Tensor, Tensor]:
        crosses = self.kind.role == "cross"
        if cache is not None and crosses and self.path in cache:
            k, v = cache.get(self.path)
            return k, v
        k, v = self._split(self.W_K(memory)), self._split(self.W_V(memory))
        if cache is None:
            return k, v
        if not crosses:
            return cache.append(self.path, k, v)
        cache.put(self.path, k, v)
        return k, v

    def _split(self, x: Tensor) -> Tensor:
        batch, n, _ = x.shape
        return x.view(batch, n, self.n_heads, self.d_head).transpose(1, 2)
