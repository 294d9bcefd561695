"""Common parts of encoder-decoders (Vaswani et al. 2017, §3.4).

A source is encoded once, a target reads it, and one embedding matrix serves source, target and
logits.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from models.architectures.base import Architecture, Field
from models.layers.masks import Masks, SiteKind

ENCODER_SELF = SiteKind("encoder_self", "encoder", "self", "source", "source")
DECODER_SELF = SiteKind("decoder_self", "decoder", "self", "target", "target")
DECODER_UNMASKED = SiteKind(
    "decoder_self",
    "decoder",
    "self",
    "target",
    "target",
    "Decoder self-attention, unmasked",
    is_causal=False,
)
CROSS = SiteKind("cross", "decoder", "cross", "target", "source")


class EncoderDecoder(Architecture):
    """An encoder-decoder; subclasses build `encoder` and `decoder` and define how they are used."""

    fields = (
        Field("source", "source", after="end"),
        Field("target", "target", optional=True, before="start"),
    )
    streams = ("source", "target")
    writes = "target"

    def forward(
        self,
        source: Int[Tensor, "batch n"],
        target: Int[Tensor, "batch m"],
        masks: Masks | None = None,
    ) -> Float[Tensor, "batch m vocab"]:
        """Return the logits of the token after each target position; `target` starts with <s>."""
        masks = self.masks(source, target) if masks is None else masks
        return self.decode(target, self.encode(source, masks), masks)

    def masks(
        self, source: Int[Tensor, "batch n"], target: Int[Tensor, "batch m"], start: int = 0
    ) -> Masks:
        """Return the masks of source and target; target queries begin at position `start`."""
        raise NotImplementedError

    def opening(self, inputs: Int[Tensor, "batch n"]) -> Int[Tensor, "batch 1"]:
        """Return <s> for each source."""
        return torch.full((len(inputs), 1), self.config.start_id, device=inputs.device)

    def written_masks(
        self, inputs: Int[Tensor, "batch n"], row: Int[Tensor, "batch m"], start: int = 0
    ) -> Masks:
        """Return the masks of a source and the target so far, for queries from `start` on."""
        return self.masks(inputs, row, start)

    def max_new_tokens(self, n_given: int) -> int:
        """Return twice the length of the source plus 20, at most n_ctx."""
        return min(2 * n_given + 20, self.config.n_ctx - 1)

    def _embed_scaled(
        self, ids: Int[Tensor, "batch n"], stream: str, start: int = 0
    ) -> Float[Tensor, "batch n d_model"]:
        """Return embedding·√d_model + position, from position `start` on (§3.4)."""
        stack = "encoder" if stream == "source" else "decoder"
        return self._embed(
            ids, stream, stack, start, self.config.d_model**0.5, "embedding(token)·√d_model"
        )
