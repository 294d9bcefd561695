"""The encoder-decoder Transformer of "Attention Is All You Need" (Vaswani et al. 2017), read top to bottom."""

import math
from dataclasses import dataclass

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from models import masks
from models.attention import Cache
from models.blocks import DecoderLayer, EncoderLayer
from models.masks import Mask, Masks
from models.positions import Positions
from models.trace import tap


@dataclass(frozen=True)
class TransformerConfig:
    """The sizes of one Transformer; names as in the paper's Table 3 where it has one."""

    vocab_size: int
    d_model: int = 512
    n_heads: int = 8              # h
    n_encoder_layers: int = 6     # N
    n_decoder_layers: int = 6     # N
    d_ff: int = 2048
    dropout: float = 0.1          # P_drop: on each sublayer's output and on embedding + position
    n_ctx: int = 512              # longest source or target, in tokens
    norm: str = "post"            # the paper's; "pre" moves LayerNorm inside the residual branch
    positions: str = "sinusoidal"   # "learned" or "none" too
    similarity: str = "scaled dot"   # or another of models.similarity.KINDS
    pad_id: int = 0

    def __post_init__(self) -> None:
        least = {"vocab_size": 1, "d_model": 1, "n_encoder_layers": 0, "n_decoder_layers": 0, "d_ff": 1, "n_ctx": 2}
        for name, smallest in least.items():
            if getattr(self, name) < smallest:
                raise ValueError(f"{name} must be at least {smallest}, not {getattr(self, name)}")

    @classmethod
    def base(cls, vocab_size: int = 37000) -> "TransformerConfig":
        """The base model of Table 3: 65 M parameters."""
        return cls(vocab_size)

    @classmethod
    def big(cls, vocab_size: int = 37000) -> "TransformerConfig":
        """The big model of Table 3: 213 M parameters."""
        return cls(vocab_size, d_model=1024, n_heads=16, d_ff=4096, dropout=0.3)


class Stack(nn.Module):
    """N layers, and under pre-LN a last LayerNorm."""

    def __init__(self, layer: type, n_layers: int, config: TransformerConfig) -> None:
        super().__init__()
        sizes = (config.d_model, config.n_heads, config.d_ff, config.dropout, config.norm, config.similarity)
        self.layers = nn.ModuleList(layer(*sizes) for _ in range(n_layers))
        self.last_norm = nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()

    def forward(self, x: Tensor, *rest: object) -> Tensor:
        for layer in self.layers:
            x = layer(x, *rest)
        return self.last_norm(x)


class Transformer(nn.Module):
    """Encoder and decoder around one embedding matrix, shared by source, target and pre-softmax (§3.4)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        self.positions = Positions(config.positions, config.n_ctx, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = Stack(EncoderLayer, config.n_encoder_layers, config)
        self.decoder = Stack(DecoderLayer, config.n_decoder_layers, config)
        for path, module in self.named_modules():
            if hasattr(module, "path"):
                module.path = path

    def forward(
        self, source: Int[Tensor, "batch n"], target: Int[Tensor, "batch m"], masks: Masks | None = None
    ) -> Float[Tensor, "batch m vocab"]:
        """Logits of the token after each target position. `target` is shifted right: it starts with <s>."""
        masks = masks or self.masks(source, target)
        return self.decode(target, self.encode(source, masks), masks)

    def masks(self, source: Int[Tensor, "batch n"], target: Int[Tensor, "batch m"]) -> Masks:
        """Padding for every key, look-ahead for the decoder's self-attention."""
        source_padding = masks.padding(source, self.config.pad_id)
        target_padding = masks.padding(target, self.config.pad_id)
        m = target.shape[1]
        return {
            "encoder_self": Mask([source_padding]),
            "decoder_self": Mask([target_padding, masks.look_ahead(m, m, target.device)]),
            "cross": Mask([source_padding]),
        }

    def encode(self, source: Int[Tensor, "batch n"], masks: Masks) -> Float[Tensor, "batch n d_model"]:
        """The encoder's output, often called memory."""
        return self.encoder(self._embed(source, "source"), masks["encoder_self"])

    def decode(
        self,
        target: Int[Tensor, "batch m"],
        memory: Float[Tensor, "batch n d_model"],
        masks: Masks,
        cache: Cache | None = None,
        start: int = 0,
    ) -> Float[Tensor, "batch m vocab"]:
        """Logits after each position of `target`, whose first token stands at position `start` (>0 with a cache)."""
        x = self._embed(target, "target", start)
        x = self.decoder(x, memory, masks["decoder_self"], masks["cross"], cache)
        logits = F.linear(x, self.embedding.weight)                      # (batch, m, vocab)
        tap("", "logits", logits, "target", "vocab", "decoder output · embeddingᵀ")
        return logits

    def _embed(self, ids: Tensor, stream: str, start: int = 0) -> Tensor:
        n = ids.shape[1]
        if start + n > self.config.n_ctx:
            raise ValueError(f"{start + n} tokens, but this model reads at most {self.config.n_ctx} (n_ctx)")
        scaled = self.embedding(ids) * math.sqrt(self.config.d_model)    # (batch, n, d_model)
        position = self.positions(n, start)
        side = "encoder" if stream == "source" else "decoder"
        tap(side, "embedding", scaled, stream, "d_model", "embedding(token)·√d_model")
        tap(side, "position", position[None], stream, "d_model", f"{self.config.positions} position vectors")
        return self.dropout(scaled + position)
