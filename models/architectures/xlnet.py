"""XLNet (Yang et al. 2019): tokens of one text are predicted in any order. Read top to bottom.

Two streams of states share all weights: the content stream knows its own token, the query stream
only its position.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from models.architectures.base import ORDER_FIELD, Answers, Architecture, Family, Field
from models.architectures.config_checks import check_fields
from models.layers import masks
from models.layers.blocks import NORMAL_STD, AddNorm, FeedForward
from models.layers.masks import Mask, Masks, SiteKind
from models.layers.relative import RelativeAttention
from models.layers.sublayers import FEED_FORWARD, Sublayer
from models.tokenizers.base import Tokenizer
from models.tokenizers.encoding import Encoding
from models.trace import TracedModule, tap
from models.trace.outputs import Output, TokenInOrder

XLNET_CONTENT = SiteKind("content", "encoder", "content", "text", "text")
XLNET_QUERY = SiteKind("query", "encoder", "query", "text", "text")
TOKEN_IN_ORDER = "token in order"  # its output


@dataclass(frozen=True)
class XLNetConfig:
    """The sizes of one XLNet."""

    vocab_size: int
    d_model: int = 768
    n_heads: int = 12
    n_layers: int = 12
    n_ctx: int = 512  # longest text, in tokens
    d_ff: int = 0  # 0 becomes 4·d_model
    dropout: float = 0.1
    activation: str = "gelu"  # of models.layers.blocks.ACTIVATIONS
    pad_id: int = 0

    def __post_init__(self) -> None:
        if self.d_ff == 0:
            object.__setattr__(self, "d_ff", 4 * self.d_model)
        check_fields(self)

    @property
    def family(self) -> Family:
        return Family("XLNet (Yang et al. 2019)", 2019)

    @classmethod
    def base(cls, vocab_size: int = 32_000) -> "XLNetConfig":
        """XLNet-Base, the size of BERT-Base (Yang et al. 2019, §3.1)."""
        return cls(vocab_size)


class TwoStreamLayer(TracedModule):
    """Attention and feed-forward, each inside Add & Norm (post-LN), for two streams of states.

    The content stream h and the query stream g share all weights, and both attend to h (Yang et al.
    2019, §2.3, "two-stream self-attention").
    """

    path = "layers.0"

    def __init__(self, config: XLNetConfig) -> None:
        super().__init__()
        d_model, dropout = config.d_model, config.dropout
        self.content_attn = RelativeAttention(d_model, config.n_heads, XLNET_CONTENT, XLNET_QUERY)
        self.ff = FeedForward(d_model, config.d_ff, "text", config.activation)
        self.add_norm_1, self.add_norm_2 = (
            AddNorm(d_model, dropout, "post", "text") for _ in range(2)
        )

    @property
    def sublayers(self) -> tuple[Sublayer, ...]:
        """Sublayers of the content stream, then those of the query stream."""
        paths = self.content_attn.path, self.content_attn.query_path
        return (
            *self._sublayers(paths[0], XLNET_CONTENT.role, ""),
            *self._sublayers(paths[1], XLNET_QUERY.role, "query_"),
        )

    def _sublayers(self, site: str, states: str, mark: str) -> tuple[Sublayer, ...]:
        before, middle, after = (f"{mark}resid_{place}" for place in ("pre", "mid", "post"))
        both = (
            self.add_norm_1.around(site, states, "attn_out", before, middle),
            self.add_norm_2.around(
                self.ff.path, FEED_FORWARD, f"{mark}ff_out", middle, after, self.ff.activation
            ),
        )
        return tuple(replace(sublayer, states=states, mark=mark) for sublayer in both)

    def forward(
        self,
        h: Float[Tensor, "batch n d_model"],
        g: Float[Tensor, "batch n d_model"] | None,
        segments: Int[Tensor, "batch n"],
        both: tuple[Mask, Mask],
    ) -> tuple[Tensor, Tensor | None]:
        formula = "residual stream before attention"
        h = tap(self.path, "resid_pre", h, "text", "d_model", formula)
        if g is not None:
            g = tap(self.path, "query_resid_pre", g, "text", "d_model", formula)
        read_h, read_g = self.content_attn(h, g, segments, both)
        after = self._rest(h, read_h, "")
        return after, None if g is None else self._rest(g, read_g, "query_")

    def _rest(self, x: Tensor, read: Tensor, mark: str) -> Tensor:
        x = self.add_norm_1(x, lambda _: read)
        x = tap(self.path, f"{mark}resid_mid", x, "text", "d_model", self.add_norm_1.formula)
        x = self.add_norm_2(x, lambda states: self.ff(states, mark))
        return tap(self.path, f"{mark}resid_post", x, "text", "d_model", self.add_norm_2.formula)


class TwoStreamStack(nn.Module):
    """The layers; each passes both streams on to the next."""

    def __init__(self, config: XLNetConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(TwoStreamLayer(config) for _ in range(config.n_layers))

    def forward(
        self,
        h: Float[Tensor, "batch n d_model"],
        g: Float[Tensor, "batch n d_model"] | None,
        segments: Int[Tensor, "batch n"],
        both: tuple[Mask, Mask],
    ) -> tuple[Float[Tensor, "batch n d_model"], Float[Tensor, "batch n d_model"] | None]:
        for layer in self.layers:
            h, g = layer(h, g, segments, both)
        return h, g


class XLNet(Architecture):
    """Permutation language model with two streams (Yang et al. 2019, eq. 4 and §2.3).

    h⁽⁰⁾ = embedding(token), g⁽⁰⁾ = w for all; p(x | those before it in the order) = softmax(g⁽ᴺ⁾·Eᵀ
    + b). The memory of earlier texts (Transformer-XL) is left out.
    """

    fields = (
        Field("text", "text", segment=0),
        Field("second_text", "text", optional=True, segment=1),
        Field("order", "text", optional=True, kind=ORDER_FIELD),
    )
    streams = ("text",)
    kinds = (XLNET_CONTENT, XLNET_QUERY)
    relative_positions = True

    def __init__(self, config: XLNetConfig) -> None:
        super().__init__(config, positions=False, dropout=config.dropout)
        self.placeholder = nn.Parameter(torch.empty(config.d_model))  # w, the first query state
        self.encoder = TwoStreamStack(config)
        self.output_bias = nn.Parameter(torch.zeros(config.vocab_size))
        for name, parameter in self.named_parameters():  # as in the released code
            if parameter.dim() > 1 or name == "placeholder":
                nn.init.normal_(parameter, std=NORMAL_STD)

    @property
    def sublayers(self) -> tuple[Sublayer, ...]:
        layers = cast(Iterable[TwoStreamLayer], self.encoder.layers)
        return tuple(sublayer for layer in layers for sublayer in layer.sublayers)

    def forward(
        self,
        text: Int[Tensor, "batch n"],
        rank: Int[Tensor, "batch n"] | None = None,
        segments: Int[Tensor, "batch n"] | None = None,
        masks: Masks | None = None,
    ) -> Answers:
        """Return the logits (batch, n, vocab) of each token given those before it in the order.

        `rank` is the step at which each position is predicted, left to right by default; `segments`
        tells texts apart, one text by default.
        """
        segments = torch.zeros_like(text) if segments is None else segments
        masks = self.masks(text, rank) if masks is None else masks
        h = self._embed(text, "text", "encoder")
        g = self.dropout(self.placeholder.expand_as(h))
        formula = "w, the same at every position"
        g = tap("encoder", "query_embedding", g, "text", "d_model", formula)
        _, g = self.encoder(h, g, segments, (masks[XLNET_CONTENT.name], masks[XLNET_QUERY.name]))
        logits = F.linear(self.dropout(g), self.embedding.weight, self.output_bias)
        logits = tap("", "logits", logits, "text", "vocab", "query stream · embeddingᵀ + b")
        return {TOKEN_IN_ORDER: logits}

    def inputs(self, rows: Sequence[Mapping[str, Encoding]]) -> tuple[Tensor, ...]:
        """Return the ids of the rows, the rank of each position and its segment."""
        ranks = [
            torch.tensor(row["text"].order or range(len(row["text"].ids))).argsort().tolist()
            for row in rows
        ]
        ids, n_ctx = super().inputs(rows), self.config.n_ctx
        return (
            *ids,
            self.padded(ranks, n_ctx),
            self.padded([row["text"].segments for row in rows], 0),
        )

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        """Return the distribution at each position."""
        row = streams["text"]
        logits, order = (
            answers[TOKEN_IN_ORDER][: len(row.ids)],
            row.order or tuple(range(len(row.ids))),
        )
        return {
            TOKEN_IN_ORDER: TokenInOrder(
                "text", order, row.ids, logits, tokenizer.tokens(logits.argmax(-1).tolist())
            )
        }

    def answer(
        self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> str:
        """Return the first choice at each position, as a text."""
        in_order = cast(TokenInOrder, outputs[TOKEN_IN_ORDER])
        return tokenizer.decode(in_order.logits.argmax(-1).tolist())

    def masks(
        self, text: Int[Tensor, "batch n"], rank: Int[Tensor, "batch n"] | None = None
    ) -> Masks:
        """Return padding and the order; the content stream also sees its own token."""
        rank = (
            torch.arange(text.shape[1], device=text.device).expand_as(text)
            if rank is None
            else rank
        )
        layers = {
            kind: masks.before_in_order(rank, itself=kind is XLNET_CONTENT) for kind in self.kinds
        }
        return {
            kind.name: Mask([masks.padding(text, self.config.pad_id), layer])
            for kind, layer in layers.items()
        }
