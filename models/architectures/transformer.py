"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017). Read top to bottom."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn

from models.architectures.base import Family
from models.architectures.config_checks import check_fields
from models.architectures.encoder_decoder import (
    CROSS,
    DECODER_SELF,
    DECODER_UNMASKED,
    ENCODER_SELF,
    EncoderDecoder,
)
from models.layers import masks
from models.layers.blocks import NORMAL_STD, CrossLayer, SelfLayer, Stack
from models.layers.cache import Cache
from models.layers.masks import Mask, Masks
from models.layers.sublayers import Sublayer


@dataclass(frozen=True)
class TransformerConfig:
    """The sizes of one Transformer; names as in the paper's Table 3 where it has one."""

    vocab_size: int
    d_model: int = 512
    n_heads: int = 8  # h
    n_encoder_layers: int = 6  # N
    n_decoder_layers: int = 6  # N
    d_ff: int = 2048
    dropout: float = 0.1  # P_drop: on each sublayer's output and on embedding + position
    n_ctx: int = 512  # longest source or target, in tokens
    norm: str = "post"  # the paper's; "pre" moves LayerNorm inside the residual branch
    positions: str = "sinusoidal"  # "learned" or "none" too
    similarity: str = "scaled dot"  # or another of models.layers.similarity.SIMILARITIES
    decoder_mask: str = "look-ahead"  # the paper's; "none" lets the decoder read its own answer
    init: str = "xavier"  # how weights begin; "scaled" and "normal" make what each sublayer adds smaller, see Stack
    pad_id: int = 0
    start_id: int = 1
    end_id: int = 2

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def family(self) -> Family:
        scored = "" if self.similarity == "scaled dot" else f", {self.similarity} scores"
        return Family(f"Transformer (Vaswani et al. 2017){scored}", 2017)

    @classmethod
    def base(cls, vocab_size: int = 37000) -> "TransformerConfig":
        """Return the base model of Table 3: 65 M parameters."""
        return cls(vocab_size)

    @classmethod
    def big(cls, vocab_size: int = 37000) -> "TransformerConfig":
        """Return the big model of Table 3: 213 M parameters."""
        return cls(vocab_size, d_model=1024, n_heads=16, d_ff=4096, dropout=0.3)


class Transformer(EncoderDecoder):
    """Encoder and decoder around one embedding matrix, also that of the logits (§3.4)."""

    kinds = (ENCODER_SELF, DECODER_SELF, CROSS)

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config, positions=True, dropout=config.dropout)
        layers = {"encoder": config.n_encoder_layers, "decoder": config.n_decoder_layers}
        self.sees_ahead = config.decoder_mask == "none"
        decoder_self = DECODER_UNMASKED if self.sees_ahead else DECODER_SELF
        kinds = (ENCODER_SELF, decoder_self, CROSS)
        self.kinds = tuple(kind for kind in kinds if layers[kind.stack])
        sizes = (
            config.d_model,
            config.n_heads,
            config.d_ff,
            config.dropout,
            config.norm,
            config.similarity,
        )
        rest = (config.d_model, config.norm, config.init)
        self.encoder = Stack(
            lambda: SelfLayer(*sizes, kind=ENCODER_SELF), config.n_encoder_layers, *rest
        )
        self.decoder = Stack(
            lambda: CrossLayer(*sizes, kind=decoder_self, cross=CROSS),
            config.n_decoder_layers,
            *rest,
        )
        if config.init == "normal":
            nn.init.normal_(self.embedding.weight, std=NORMAL_STD)

    @property
    def sublayers(self) -> tuple[Sublayer, ...]:
        return (*self.encoder.sublayers, *self.decoder.sublayers)

    @property
    def last_norm(self) -> nn.Module:
        return self.decoder.last_norm

    def masks(
        self, source: Int[Tensor, "batch n"], target: Int[Tensor, "batch m"], start: int = 0
    ) -> Masks:
        """Return padding for every key, and look-ahead for the decoder unless it has none."""
        source_padding = masks.padding(source, self.config.pad_id)
        layers, m = [masks.padding(target, self.config.pad_id)], target.shape[1]
        if not self.sees_ahead:
            layers.append(masks.look_ahead(m - start, m, target.device))
        return {
            "encoder_self": Mask([source_padding]),
            "decoder_self": Mask(layers, start),
            "cross": Mask([source_padding], start),
        }

    def encode(
        self, source: Int[Tensor, "batch n"], masks: Masks
    ) -> Float[Tensor, "batch n d_model"]:
        """Return the encoder's output, often called memory."""
        return self.encoder(self._embed_scaled(source, "source"), masks["encoder_self"])

    def decode(
        self,
        target: Int[Tensor, "batch m"],
        memory: Float[Tensor, "batch n d_model"],
        masks: Masks,
        cache: Cache | None = None,
        start: int = 0,
    ) -> Float[Tensor, "batch m vocab"]:
        """Return the logits after each position of `target`, which begins at position `start`."""
        x = self._embed_scaled(target, "target", start)
        x = self.decoder(x, memory, masks["decoder_self"], masks["cross"], cache)
        return self._logits(x, "decoder output · embeddingᵀ")
