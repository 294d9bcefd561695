"""What the encoder-decoders have in common: one embedding matrix for source, target and logits (Vaswani et al. 2017, §3.4),
positions on top of it where the model has them, and a forward pass in two halves."""

from dataclasses import fields
from typing import Any

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from models.layers.masks import Masks
from models.layers.positions import Positions
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


# field → its least and largest value; the largest are far beyond any model of this kind and keep a mistyped one from being built
SIZES = {
    "vocab_size": (1, 2**20), "d_model": (1, 2**16), "d_ff": (1, 2**18), "d_hidden": (1, 2**16), "d_align": (1, 2**16),
    "n_encoder_layers": (0, 256), "n_decoder_layers": (0, 256), "n_self_layers": (0, 256), "n_ctx": (2, 2**16),
}  # fmt: skip
KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def check_types(kind: type, values: dict[str, Any]) -> None:
    """Raises ValueError for a value of another type than the configuration's field of that name has; True is no number here."""
    for field in fields(kind):
        value = values.get(field.name)
        if field.name in values and type(value) is not field.type and not (field.type is float and type(value) is int):
            raise ValueError(f"{field.name} must be {KINDS[field.type]}, not {value!r:.60}")


def check_fields(config: object) -> None:
    """Raises ValueError for a field of a configuration that is of another type than it says or out of its range."""
    check_types(type(config), vars(config))
    for name, value in vars(config).items():
        least, largest = SIZES.get(name, (value, value))
        if value < least:
            raise ValueError(f"{name} must be at least {least}, not {value}")
        if value > largest:
            raise ValueError(f"{name} must be at most {largest:,}, not {value:,}")
    if not 0 <= getattr(config, "dropout", 0) < 1:
        raise ValueError(f"dropout must be at least 0 and below 1, not {config.dropout}")
    if not 0 <= config.pad_id < config.vocab_size:
        raise ValueError(f"pad_id must be a token of the vocabulary, 0 to {config.vocab_size - 1}, not {config.pad_id}")
