"""What the encoder-decoders have in common: one embedding matrix for source, target and logits (Vaswani et al. 2017, §3.4),
positions on top of it where the model has them, and a forward pass in two halves."""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from models.masks import Masks
from models.positions import Positions
from models.trace import tap


class EncoderDecoder(nn.Module):
    """Subclasses make `encoder` and `decoder`, then call `_set_paths`; they define `masks`, `encode` and `decode`."""

    def __init__(self, config: object, *, positions: bool, dropout: float) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        self.positions = Positions(config.positions, config.n_ctx, config.d_model) if positions else None
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, source: Int[Tensor, "batch n"], target: Int[Tensor, "batch m"], masks: Masks | None = None
    ) -> Float[Tensor, "batch m vocab"]:
        """Logits of the token after each target position. `target` is shifted right: it starts with <s>."""
        masks = self.masks(source, target) if masks is None else masks
        return self.decode(target, self.encode(source, masks), masks)

    def _set_paths(self) -> None:
        """Tell every part that marks something its place in the module tree."""
        for path, module in self.named_modules():
            if hasattr(module, "path"):
                module.path = path

    def _embed(self, ids: Int[Tensor, "batch n"], stream: str, start: int = 0) -> Float[Tensor, "batch n d_model"]:
        """embedding·√d_model + position, from position `start` on. Raises ValueError beyond n_ctx."""
        n = ids.shape[1]
        if start + n > self.config.n_ctx:
            raise ValueError(f"{start + n} tokens, but this model reads at most {self.config.n_ctx} (n_ctx)")
        side = "encoder" if stream == "source" else "decoder"
        x = self.embedding(ids) * self.config.d_model**0.5
        tap(side, "embedding", x, stream, "d_model", "embedding(token)·√d_model")
        if self.positions is not None:
            position = self.positions(n, start)
            tap(side, "position", position[None], stream, "d_model", f"{self.config.positions} position vectors")
            x = x + position
        return self.dropout(x)

    def _logits(self, x: Float[Tensor, "batch m d_model"], formula: str) -> Float[Tensor, "batch m vocab"]:
        """What the decoder made, times the embedding matrix; `formula` says so in symbols."""
        logits = F.linear(x, self.embedding.weight)
        tap("", "logits", logits, "target", "vocab", formula)
        return logits


def check_sizes(config: object, **least: int) -> None:
    """Raises ValueError for a number of the configuration that is below its least."""
    for name, smallest in least.items():
        if getattr(config, name) < smallest:
            raise ValueError(f"{name} must be at least {smallest}, not {getattr(config, name)}")
