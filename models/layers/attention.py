"""Attention(Q, K, V) = softmax(QKᵀ/√d_k)·V and its multi-head form.

Vaswani et al. 2017, eq. 1 and §3.2.2. The functions of `models/layers/similarity.py` are the
readable route to the weights; the module runs torch's fused kernel. Tests compare the two.
"""

from jaxtyping import Float
from torch import Tensor, nn

from models.layers.cache import Cache
from models.layers.masks import Mask, SiteKind
from models.layers.similarity import LearnedSimilarity, masked_softmax
from models.trace import TracedModule, tap
from models.trace.attend import attend
from models.trace.lazy import LazyLinear


class MultiHeadAttention(TracedModule):
    """MultiHead(Q, K, V) = Concat(head₁ … head_h)·W_O.

    `kind` says where Q, K and V come from; `similarity` is one of
    models.layers.similarity.SIMILARITIES.
    """

    path = "attention"

    def __init__(
        self, d_model: int, n_heads: int, kind: SiteKind, similarity: str = "scaled dot"
    ) -> None:
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
        """(weight, bias) of W_Q W_K W_V W_O, without gradients."""
        layers = {"W_Q": self.W_Q, "W_K": self.W_K, "W_V": self.W_V, "W_O": self.W_O}
        return {
            name: (layer.weight.detach(), layer.bias.detach()) for name, layer in layers.items()
        }

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"],
        mask: Mask,
        cache: Cache | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        """Attend from x to memory (x itself in self-attention)."""
        q, k, v = self._project(x, memory, cache)  # (batch, head, query or key, d_head)
        out = attend(
            self.kind, self.path, q, k, v, mask,
            kernel=lambda mask: self.similarity.attend(q, k, v, mask),
            weights=lambda mask: masked_softmax(self.similarity(q, k), mask.allowed),
            record=lambda recording, out, mask, edits: recording.site(
                self, x, memory, q, k, v, out, mask, edits=edits
            ),
        )  # (batch, head, query, d_head)  # fmt: skip
        concat = out.transpose(1, 2).flatten(2)  # (batch, query, d_model)
        return tap(
            self.path,
            "attn_out",
            self.W_O(concat),
            self.kind.query_stream,
            "d_model",
            "Concat(head_out)·W_O",
            lambda: LazyLinear.of(self.W_O, concat),
        )

    def _project(
        self, x: Tensor, memory: Tensor, cache: Cache | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return q of the new positions, and k and v of all, earlier ones from the cache."""
        q = self._split(self.W_Q(x))
        if self.kind.role == "cross" and cache is not None and self.path in cache:
            k, v = cache.get(self.path)
            return q, k, v
        k, v = self._split(self.W_K(memory)), self._split(self.W_V(memory))
        if cache is None:
            return q, k, v
        if self.kind.role != "cross":
            return q, *cache.append(self.path, k, v)
        cache.put(self.path, k, v)
        return q, k, v

    def _split(self, x: Tensor) -> Tensor:
        batch, n, _ = x.shape
        return x.view(batch, n, self.n_heads, self.d_head).transpose(1, 2)
