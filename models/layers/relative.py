"""Attention with relative positions and segments, for two streams of states with shared weights.

Dai et al. 2019 (§3.3); Yang et al. 2019 (§2.4–2.5).
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from models.layers.masks import Mask, SiteKind
from models.layers.positions import wavelengths
from models.layers.similarity import LearnedSimilarity, masked_softmax
from models.trace import Recording, RelativePositionTerm, SegmentTerm, TracedModule, tap
from models.trace.attend import attend
from models.trace.edits import Edits
from models.trace.lazy import LazyLinear


def distance_vectors(n: int, d_model: int) -> Float[Tensor, "distance d_model"]:
    """Return r of the distances i − j = n−1 … −(n−1), from keys before the query to keys after it.

    All sines come first, then all cosines, as in the released Transformer-XL and XLNet.
    """
    distance = torch.arange(n - 1, -n, -1, dtype=torch.float64)[:, None]
    angle = distance * 2 * torch.pi / wavelengths("paper", d_model)[::2]
    return torch.cat([angle.sin(), angle.cos()], -1).float()


class RelativeAttention(TracedModule):
    """Attention whose scores add a position term and a segment term.

    score(i, j) = [(W_Q·x_i + u)·k_j + (W_Q·x_i + v)·W_R·r_(i−j) + (W_Q·x_i + s)·e]/√d_head, where e
    is one of two vectors, for the same segment or for different ones. The only biases are u, v and
    s. `content` and `query` are the kinds of its two streams.
    """

    path = "attention"

    def __init__(self, d_model: int, n_heads: int, content: SiteKind, query: SiteKind) -> None:
        super().__init__()
        if n_heads < 1 or d_model % n_heads:
            raise ValueError(f"d_model ({d_model}) must be divisible by n_heads ({n_heads})")
        self.kind, self.query_kind, self.n_heads, self.d_head = (
            content,
            query,
            n_heads,
            d_model // n_heads,
        )
        self.W_Q, self.W_K, self.W_V, self.W_O, self.W_R = (
            nn.Linear(d_model, d_model, bias=False) for _ in range(5)
        )
        self.u, self.v, self.s = (nn.Parameter(torch.empty(n_heads, self.d_head)) for _ in range(3))
        self.segment = nn.Parameter(torch.empty(2, n_heads, self.d_head))  # same, different
        self.similarity = LearnedSimilarity("scaled dot", self.d_head)

    @property
    def query_path(self) -> str:
        """Path under which the query stream is recorded; `path` is the content stream's."""
        return f"{self.path.removesuffix('content_attn')}query_attn"

    @property
    def projections(self) -> dict[str, tuple[Tensor, Tensor | None]]:
        """(weight, bias) of W_Q W_K W_V W_O, without gradients; u is the bias of W_Q."""
        layers = {"W_Q": self.W_Q, "W_K": self.W_K, "W_V": self.W_V, "W_O": self.W_O}
        return {
            name: (layer.weight.detach(), self.u.detach().flatten() if name == "W_Q" else None)
            for name, layer in layers.items()
        }

    def forward(
        self,
        content: Float[Tensor, "batch n d_model"],
        query: Float[Tensor, "batch n d_model"] | None,
        segments: Int[Tensor, "batch n"],
        masks: tuple[Mask, Mask],
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from both streams to the content stream.

        The second result is None without a query stream.
        """
        r = distance_vectors(content.shape[1], self.W_R.in_features).to(
            content.device, content.dtype
        )
        keys = (
            self.W_R(r).unflatten(-1, (self.n_heads, -1)).transpose(0, 1)
        )  # (head, distance, d_head)
        k, v = self._split(self.W_K(content)), self._split(self.W_V(content))
        streams = [(self.kind, self.path, content, masks[0])]
        if query is not None:
            streams.append((self.query_kind, self.query_path, query, masks[1]))
        read = [
            self._read(kind, name, x, content, k, v, keys, segments, mask)
            for kind, name, x, mask in streams
        ]
        return read[0], read[1] if query is not None else None

    def _read(
        self,
        kind: SiteKind,
        name: str,
        x: Tensor,
        content: Tensor,
        k: Tensor,
        v: Tensor,
        keys: Tensor,
        segments: Tensor,
        mask: Mask,
    ) -> Tensor:
        n = x.shape[1]
        plain = self._split(self.W_Q(x))  # (batch, head, query, d_head)
        q, at_distance, at_segment = (plain + bias[:, None] for bias in (self.u, self.v, self.s))
        scale, ends = self.d_head**-0.5, self.segment.transpose(0, 1)  # (head, 2, d_head)
        bias = _shift(at_distance @ keys.transpose(-1, -2))  # (batch, head, query, key)
        same, other = (at_segment @ ends.transpose(-1, -2)).unbind(-1)
        bias = bias + torch.where(_differ(segments), other[..., None], same[..., None])
        bias = bias * scale

        def kernel(mask: Mask) -> Tensor:
            blocking = mask.blocking
            added = bias if blocking is None else bias.masked_fill(~blocking, -torch.inf)
            return F.scaled_dot_product_attention(q, k, v, attn_mask=added)

        def record(recording: Recording, out: Tensor, mask: Mask, edits: Edits) -> None:
            terms = (
                RelativePositionTerm("position", at_distance.detach(), keys.detach(), 1 - n, scale),
                SegmentTerm("segment", at_segment.detach(), ends.detach(), segments, scale),
            )
            recording.site(self, x, content, q, k, v, out, mask, terms, name, kind, edits)

        out = attend(
            kind, name, q, k, v, mask,
            kernel=kernel,
            weights=lambda mask: masked_softmax(self.similarity(q, k) + bias, mask.allowed),
            record=record,
        )  # (batch, head, query, d_head)  # fmt: skip
        concat = out.transpose(1, 2).flatten(2)  # (batch, query, d_model)
        return tap(
            name,
            "attn_out",
            self.W_O(concat),
            kind.query_stream,
            "d_model",
            "Concat(head_out)·W_O",
            lambda: LazyLinear.of(self.W_O, concat),
        )

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)


def _shift(
    met: Float[Tensor, "batch head query distance"],
) -> Float[Tensor, "batch head query key"]:
    """Move column n−1 + j − i of row i to column j.

    Each row starts one column earlier than the row before it.
    """
    n = met.shape[-2]
    return met.flatten(-2)[..., n - 1 : -1].unflatten(-1, (n, 2 * n - 2))[..., :n] if n > 1 else met


def _differ(segments: Int[Tensor, "batch n"]) -> Tensor:
    """Return (batch, 1, query, key): True if query and key are in different segments."""
    return segments[:, None, :, None] != segments[:, None, None, :]
