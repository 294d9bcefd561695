"""Attention without recurrence: the steps between Bahdanau's alignment and the Transformer.

    C = Attn(X, X')               n_self_layers = 0, n_heads = 1: cross-attention alone
    X ← Attn(X, X), also for X'   n_self_layers = 1: self-attention on each side first
    several heads                 n_heads > 1
    stacked                       n_self_layers > 1
    stacked, with Add & Norm      residual = True: X ← LayerNorm(X + Attn(X, X)) everywhere

There is no feed-forward and, without `residual`, no residual connection and no LayerNorm: all that
these layers can do is done by attention. Positions are added to the embeddings, or order would be
lost.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from jaxtyping import Float, Int
from torch import Tensor, nn

from models.architectures.base import Family
from models.architectures.config_checks import check_fields
from models.architectures.encoder_decoder import CROSS, DECODER_SELF, ENCODER_SELF, EncoderDecoder
from models.layers import masks
from models.layers.attention import MultiHeadAttention
from models.layers.cache import Cache
from models.layers.masks import Mask, Masks, SiteKind
from models.layers.sublayers import Sublayer
from models.trace import tap

ADD_NORM = "LayerNorm(x + Attn(x, ·))"


@dataclass(frozen=True)
class AttentionOnlyConfig:
    """The sizes of one such model."""

    vocab_size: int
    d_model: int = 64
    n_heads: int = 1
    n_self_layers: int = 0  # self-attention layers on each side before the cross-attention
    similarity: str = "scaled dot"  # one of models.layers.similarity.SIMILARITIES
    n_ctx: int = 64  # longest source or target, in tokens
    positions: str = "sinusoidal"  # "learned" or "none" too
    residual: bool = False  # Add & Norm around every attention, as in the Transformer
    pad_id: int = 0
    start_id: int = 1
    end_id: int = 2

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def family(self) -> Family:
        n = self.n_self_layers
        layers = f"after {n} self-attention {'layer' if n == 1 else 'layers'}" if n else ""
        heads, around = (
            f"{self.n_heads} heads" if self.n_heads > 1 else "",
            "Add & Norm" if self.residual else "",
        )
        return Family(
            ", ".join(filter(None, ["attention alone", layers, heads, around])), 2016
        )  # between the two papers


class SelfStack(nn.Module):
    """x ← Attn(x, x), n_self_layers times; with `residual`, x ← LayerNorm(x + Attn(x, x))."""

    cross_attn: MultiHeadAttention  # of a decoder
    cross: nn.ModuleDict  # its Add & Norm

    def __init__(self, config: AttentionOnlyConfig, kind: SiteKind) -> None:
        super().__init__()
        sizes = (config.d_model, config.n_heads, kind, config.similarity)
        self.stream = kind.query_stream
        self.layers = nn.ModuleList(
            nn.ModuleDict({"self_attn": MultiHeadAttention(*sizes), **_add_norm(config)})
            for _ in range(config.n_self_layers)
        )

    def forward(
        self, x: Float[Tensor, "batch n d_model"], mask: Mask, cache: Cache | None = None
    ) -> Float[Tensor, "batch n d_model"]:
        for layer in cast(Iterable[nn.ModuleDict], self.layers):
            attention = cast(MultiHeadAttention, layer["self_attn"])
            if "layer_norm" in layer:
                x = tap(
                    _place(attention),
                    "resid_pre",
                    x,
                    self.stream,
                    "d_model",
                    "residual stream before self-attention",
                )
            x = _add(x, attention(x, x, mask, cache), layer)
            if "layer_norm" in layer:
                x = tap(_place(attention), "resid_post", x, self.stream, "d_model", ADD_NORM)
        return x

    @property
    def sublayers(self) -> tuple[Sublayer, ...]:
        layers = cast(Iterable[nn.ModuleDict], self.layers)
        return tuple(
            _sublayer(cast(MultiHeadAttention, layer["self_attn"]), layer, "resid_pre")
            for layer in layers
        )


class AttentionOnly(EncoderDecoder):
    """Self-attention on each side, then one cross-attention, around one embedding matrix."""

    def __init__(self, config: AttentionOnlyConfig) -> None:
        super().__init__(config, positions=True, dropout=0.0)
        self.kinds = (ENCODER_SELF, DECODER_SELF, CROSS) if config.n_self_layers else (CROSS,)
        self.encoder = SelfStack(config, ENCODER_SELF)
        self.decoder = SelfStack(config, DECODER_SELF)
        self.decoder.cross_attn = MultiHeadAttention(
            config.d_model, config.n_heads, CROSS, config.similarity
        )
        self.decoder.cross = nn.ModuleDict(_add_norm(config))

    @property
    def sublayers(self) -> tuple[Sublayer, ...]:
        last = _sublayer(self.decoder.cross_attn, self.decoder.cross, "resid_mid")
        return (*self.encoder.sublayers, *self.decoder.sublayers, last)

    def masks(
        self, source: Int[Tensor, "batch n"], target: Int[Tensor, "batch m"], start: int = 0
    ) -> Masks:
        """Return the masks of the Transformer, without those of absent self-attention."""
        source_padding, m = masks.padding(source, self.config.pad_id), target.shape[1]
        cross = {"cross": Mask([source_padding], start)}
        if not self.config.n_self_layers:
            return cross
        target_layers = [
            masks.padding(target, self.config.pad_id),
            masks.look_ahead(m - start, m, target.device),
        ]
        return {
            "encoder_self": Mask([source_padding]),
            "decoder_self": Mask(target_layers, start),
            **cross,
        }

    def encode(
        self, source: Int[Tensor, "batch n"], masks: Masks
    ) -> Float[Tensor, "batch n d_model"]:
        """Return X, after its self-attention if there is any."""
        return self.encoder(self._embed_scaled(source, "source"), masks.get("encoder_self", Mask()))

    def decode(
        self,
        target: Int[Tensor, "batch m"],
        memory: Float[Tensor, "batch n d_model"],
        masks: Masks,
        cache: Cache | None = None,
        start: int = 0,
    ) -> Float[Tensor, "batch m vocab"]:
        """Return the logits after each position of `target`, which begins at position `start`."""
        x = self.decoder(
            self._embed_scaled(target, "target", start), masks.get("decoder_self", Mask()), cache
        )
        if self.config.residual:
            x = tap(
                _place(self.decoder.cross_attn),
                "resid_mid",
                x,
                "target",
                "d_model",
                "residual stream before cross-attention",
            )
        c = _add(x, self.decoder.cross_attn(x, memory, masks["cross"], cache), self.decoder.cross)
        if self.config.residual:
            c = tap(_place(self.decoder.cross_attn), "resid_post", c, "target", "d_model", ADD_NORM)
        formula = f"{'LayerNorm(X + ' * self.config.residual}Attn(X, X'){')' * self.config.residual} · embeddingᵀ"
        return self._logits(c, formula)


def _add_norm(config: AttentionOnlyConfig) -> dict[str, nn.Module]:
    return {"layer_norm": nn.LayerNorm(config.d_model)} if config.residual else {}


def _sublayer(attention: MultiHeadAttention, parts: nn.ModuleDict, before: str) -> Sublayer:
    """Declare an attention; without Add & Norm only its output is recorded."""
    path, place, out = attention.path, _place(attention), f"{attention.path}.attn_out"
    stream, role = attention.kind.query_stream, attention.kind.role
    if "layer_norm" not in parts:
        return Sublayer(path, role, stream, "", out, out, "none", adds=False)
    return Sublayer(
        path,
        role,
        stream,
        f"{place}.{before}",
        out,
        f"{place}.resid_post",
        "post",
        parts["layer_norm"],
    )


def _place(attention: MultiHeadAttention) -> str:
    """Return the path of the layer that contains an attention."""
    return attention.path.rpartition(".")[0]


def _add(x: Tensor, attended: Tensor, parts: nn.ModuleDict) -> Tensor:
    """Return the result of a layer: the attended vectors, with Add & Norm added to x."""
    return parts["layer_norm"](x + attended) if "layer_norm" in parts else attended
