"""The decoder-only Transformer of GPT (Radford et al. 2018, 2019), read top to bottom: one text, in which every token is
predicted from those before it."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn

from models.architectures.base import Architecture, Family, Field, check_fields
from models.layers import masks
from models.layers.blocks import NORMAL_STD, SelfLayer, Stack
from models.layers.cache import Cache
from models.layers.masks import Mask, MaskLayer, Masks, SiteKind
from models.layers.sublayers import Sublayer
from models.trace.edits import MaskChange, ready_made

SELF = SiteKind("self", "decoder", "self", "text", "text")


@dataclass(frozen=True)
class GPTConfig:
    """The sizes of one GPT."""

    vocab_size: int
    d_model: int = 768
    n_heads: int = 12
    n_layers: int = 12
    n_ctx: int = 512              # longest text, in tokens
    d_ff: int = 0                 # 0 becomes 4·d_model, as in both papers
    dropout: float = 0.1          # on each sublayer's output and on embedding + position
    norm: str = "pre"             # GPT-2's; "post" is GPT-1's
    positions: str = "learned"    # "sinusoidal" or "none" too
    activation: str = "gelu"      # of models.layers.blocks.ACTIVATIONS
    similarity: str = "scaled dot"   # or another of models.layers.similarity.KINDS
    init: str = "scaled"          # GPT-2's; see Stack
    window: int = 0               # how many tokens before its own a position may look back (k); 0: all
    pad_id: int = 0
    start_id: int = 1
    end_id: int = 2

    def __post_init__(self) -> None:
        if self.d_ff == 0:
            object.__setattr__(self, "d_ff", 4 * self.d_model)
        check_fields(self)

    @property
    def family(self) -> Family:
        return Family("GPT (Radford et al. 2018, 2019)", 2018)

    @classmethod
    def gpt(cls, vocab_size: int = 40_478) -> "GPTConfig":
        """GPT-1 (Radford et al. 2018, §4.1): 117 M parameters. Its released code takes GELU in the tanh form."""
        return cls(vocab_size, norm="post", activation="gelu tanh", init="xavier")

    @classmethod
    def gpt2_small(cls, vocab_size: int = 50_257) -> "GPTConfig":
        """The smallest GPT-2 (Radford et al. 2019, table 2): 124 M parameters."""
        return cls(vocab_size, n_ctx=1024, activation="gelu tanh")


class GPT(Architecture):
    """h₀ = U·W_e + W_p; hₗ = layer(hₗ₋₁); P(u) = softmax(hₙ·W_eᵀ) (Radford et al. 2018, eq. 2)."""

    fields = (Field("text", "text", before="start"), Field("continuation", "text", optional=True))
    streams = ("text",)
    writes = "text"
    kinds = (SELF,)

    def __init__(self, config: GPTConfig) -> None:
        super().__init__(config, positions=True, dropout=config.dropout)
        sizes = (config.d_model, config.n_heads, config.d_ff, config.dropout, config.norm, config.similarity)

        def make() -> SelfLayer:
            return SelfLayer(*sizes, kind=SELF, activation=config.activation)

        self.decoder = Stack(make, config.n_layers, config.d_model, config.norm, config.init)
        for table in (self.embedding.weight, self.positions.table):     # as in the papers, whatever the layers' init
            if isinstance(table, nn.Parameter):
                nn.init.normal_(table, std=NORMAL_STD)
        self._set_paths()

    @property
    def sublayers(self) -> tuple[Sublayer, ...]:
        return self.decoder.sublayers

    @property
    def last_norm(self) -> nn.Module:
        return self.decoder.last_norm

    def forward(self, text: Int[Tensor, "batch n"], masks: Masks | None = None) -> Float[Tensor, "batch n vocab"]:
        """Logits of the token after each position."""
        return self.decode(text, None, self.masks(text) if masks is None else masks)

    def masks(self, text: Int[Tensor, "batch n"]) -> Masks:
        """Padding and look-ahead; the window, where there is one."""
        return self.written_masks(text, text)

    def opening(self, given: Int[Tensor, "batch n"]) -> Int[Tensor, "batch n"]:
        """The text so far: what is written goes on behind it."""
        return given

    def written_masks(self, given: Int[Tensor, "batch n"], row: Int[Tensor, "batch m"], start: int = 0) -> Masks:
        """The masks of the row alone; what was given is its beginning."""
        m = row.shape[1]
        layers = [masks.padding(row, self.config.pad_id), masks.look_ahead(m - start, m, row.device)]
        if k := self.config.window:
            window = MaskChange(ready="window", k=k)      # named and drawn as the one that a person can put on
            layers.append(MaskLayer(window.ready_name, ready_made(window.ready, k, m, m)[None, None, start:].to(row.device)))
        return {SELF.name: Mask(layers, start)}

    def encode(self, given: Int[Tensor, "batch n"], masks: Masks) -> None:
        """Nothing: there is no source."""
        return

    def decode(
        self, row: Int[Tensor, "batch m"], memory: None, masks: Masks, cache: Cache | None = None, start: int = 0
    ) -> Float[Tensor, "batch m vocab"]:
        """Logits after each position of `row`, whose first token stands at position `start` (>0 with a cache)."""
        x = self._embed(row, "text", "decoder", start)
        x = self.decoder(x, masks[SELF.name], cache)
        return self._logits(x, "decoder output · embeddingᵀ")

    def longest(self, n_given: int) -> int:
        """As many as it can read."""
        return self.config.n_ctx - n_given
