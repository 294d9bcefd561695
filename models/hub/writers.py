"""Models of others that write: on behind a text, or another text."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from models.architectures.base import Architecture, Field
from models.architectures.encoder_decoder import CROSS, DECODER_SELF, ENCODER_SELF
from models.hub.cache import of_library
from models.hub.model import BACKWARDS, HubModel
from models.hub.tokenizer import CLOSING, OPENING
from models.hub.two_stacks import TwoStacks
from models.layers.cache import Cache
from models.layers.masks import Mask, Masks, padding


class CausalLM(HubModel):
    """Every token is predicted from those before it."""

    fields = (Field("text", "text", before=OPENING), Field("continuation", "text", optional=True))
    writes = "text"
    kinds = (BACKWARDS,)
    what_it_answers = "the next token, and it goes on with a text"

    def forward(
        self, text: Int[Tensor, "batch n"], masks: Masks | None = None
    ) -> Float[Tensor, "batch n vocab"]:
        return self.decode(text, None, {})

    def opening(self, given: Int[Tensor, "batch n"]) -> Int[Tensor, "batch n"]:
        return given

    def written_masks(
        self, given: Int[Tensor, "batch n"], row: Int[Tensor, "batch m"], start: int = 0
    ) -> Masks:
        return {}

    def encode(self, given: Int[Tensor, "batch n"], masks: Masks) -> None:
        return

    def decode(
        self,
        row: Int[Tensor, "batch m"],
        memory: None,
        masks: Masks,
        cache: Cache | None = None,
        start: int = 0,
    ) -> Float[Tensor, "batch m vocab"]:
        past = (
            {} if cache is None else {"past_key_values": of_library(cache, self.module.config).past}
        )
        return self.ask(
            self.places(row, start), **self.row(row), **past, use_cache=cache is not None
        ).logits

    def longest(self, n_given: int) -> int:
        return min(self.config.n_ctx - n_given, 50)

    outputs, answer = Architecture.outputs, Architecture.answer


class EncoderDecoderLM(TwoStacks):
    """A source is read once, a target is written from it."""

    fields = (
        Field("source", "source", before=OPENING, after=CLOSING),
        Field("target", "target", optional=True, before="start"),
    )
    streams = ("source", "target")
    writes = "target"
    kinds = (ENCODER_SELF, DECODER_SELF, CROSS)
    what_it_answers = "another text, token by token"

    def forward(
        self, source: Int[Tensor, "batch n"], target: Int[Tensor, "batch m"]
    ) -> Float[Tensor, "batch m vocab"]:
        masks = self.written_masks(source, target)
        return self.decode(target, self.encode(source, masks), masks)

    def opening(self, given: Int[Tensor, "batch n"]) -> Int[Tensor, "batch 1"]:
        return torch.full((len(given), 1), self.config.start_id, device=given.device)

    def written_masks(
        self, given: Int[Tensor, "batch n"], row: Int[Tensor, "batch m"], start: int = 0
    ) -> Masks:
        """What of the source is padding; the rest is the model's own."""
        return {CROSS.name: Mask([padding(given, self.config.pad_id)], start)}

    def decode(
        self,
        row: Int[Tensor, "batch m"],
        memory: Float[Tensor, "batch n d_model"],
        masks: Masks,
        cache: Cache | None = None,
        start: int = 0,
    ) -> Float[Tensor, "batch m vocab"]:
        known = _known(masks)
        past = (
            {}
            if cache is None
            else {"past_key_values": of_library(cache, self.module.config, crosses=True).past}
        )
        unread = known.long()  # FSMT makes its look-ahead mask only where it is given some ids
        return self.ask_decoder(
            row, memory, known, unread, start, **past, use_cache=cache is not None
        ).logits

    def longest(self, n_given: int) -> int:
        return min(2 * n_given + 20, self.config.n_ctx - 1)

    outputs, answer = Architecture.outputs, Architecture.answer


def _known(masks: Masks) -> Bool[Tensor, "batch n"]:
    """Where the source has tokens."""
    return masks[CROSS.name].layers[0].allowed[:, 0, 0]
