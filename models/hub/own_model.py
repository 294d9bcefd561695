"""A module of the user's own as an Architecture: shown, and, where its owner says that it predicts the next token, asked to write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from models.architectures.base import Architecture, Field
from models.errors import InputError
from models.hub.config import HubConfig
from models.hub.model import NUMBERS, HubModel
from models.hub.own_tokenizer import OwnEncoding, described
from models.hub.places import Places
from models.hub.provenance import OneText
from models.hub.watch import watching
from models.hub.writers import CausalLM
from models.layers.cache import Cache
from models.layers.masks import Masks, SiteKind
from models.tokenizers.base import Encoding

Call = Callable[..., Any]
NOTHING = "its attention passes neither scaled_dot_product_attention nor multi_head_attention_forward, so that there is nothing to show"


class OwnModel(HubModel):
    """A module that is shown and answers nothing that is known."""

    pads = False

    def __init__(self, module: nn.Module, config: HubConfig, name: str, call: Call) -> None:
        super().__init__(module, config)
        self.call = call
        self.fields = (Field(name, "text"),)
        self._device = next((p.device for p in module.parameters()), torch.device("cpu"))

    @property
    def device(self) -> torch.device:
        return self._device

    @property
    def token_table(self) -> None:
        """Nobody said which of its matrices that is."""
        return

    def inputs(self, rows: Sequence[Mapping[str, Encoding]]) -> tuple[Tensor, ...]:
        """The ids of the rows, or the tensors that the only row came with. Raises ValueError for several rows of tensors, or of
        different lengths, whose padding the module would not know of."""
        return (*Architecture.inputs(self, rows), *self.own_tensors([row["text"] for row in rows]))

    def own_tensors(self, encodings: Sequence[Encoding]) -> tuple[Tensor, ...]:
        """The tensors that the only row came with, none where the module takes token ids. Raises ValueError for several rows of
        tensors or of different lengths."""
        own = [e.tensors for e in encodings if isinstance(e, OwnEncoding) and e.tensors]
        if len({len(e.ids) for e in encodings}) > 1 or (own and len(encodings) > 1):
            raise ValueError(
                "this module reads one row at a time: nothing tells it which of its tokens would be padding"
            )
        return tuple(t.to(self.device) for t in own[0]) if own else ()

    def forward(self, text: Int[Tensor, "batch n"], *tensors: Tensor) -> Any:
        """Return the first tensor of the module's output, and the row itself where none has its batch axis."""
        found = self.watched_output(text, tensors)
        return {NUMBERS: text if found is None or found.shape[:1] != text.shape[:1] else found}

    def watched_output(
        self, text: Int[Tensor, "batch n"], tensors: tuple[Tensor, ...] = ()
    ) -> Tensor | None:
        """Return the first tensor of the module's output, watched. Raises what `watched_call` raises."""
        inputs = tensors or (text,)
        origins = OneText(inputs, self.kinds[0], text.shape[1])
        return self.watched_call(replace(self.places(text), provenance=origins), inputs)

    def watched_call(self, places: Places, inputs: Sequence[Tensor]) -> Tensor | None:
        """Return the first tensor of the module's output, watched.

        Raises InputError if the module fails, or if a recorded run shows no attention."""
        with watching(places) as forward_pass:
            try:
                output = self.call(self.module, *inputs)
            except Exception as error:  # the module is its owner's and may raise anything
                raise self.refused(f"cannot read this text ({described(error)})") from error
        if forward_pass.recording is not None and not forward_pass.recording.attention:
            raise self.refused(next(iter(forward_pass.recording.unrecorded.values()), NOTHING))
        parts = output if isinstance(output, tuple | list) else (output,)
        return next((part for part in parts if isinstance(part, Tensor)), None)

    def refused(self, reason: str) -> InputError:
        """Return the error that names this module and its field."""
        return InputError(f"{self.config.architecture}: {reason}", self.fields[0].name)


class OwnWriter(OwnModel):
    """A module that predicts the next token at each position."""

    writes = "text"
    kinds: tuple[SiteKind, ...] = CausalLM.kinds
    what_it_answers = CausalLM.what_it_answers
    opening, written_masks, encode, longest = (
        CausalLM.opening,
        CausalLM.written_masks,
        CausalLM.encode,
        CausalLM.longest,
    )
    outputs, answer = Architecture.outputs, Architecture.answer
    can_cache = False

    def forward(
        self, text: Int[Tensor, "batch n"], *tensors: Tensor
    ) -> Float[Tensor, "batch n vocab"]:
        logits = self.watched_output(text, tensors)
        if logits is None or logits.dim() != 3 or logits.shape[:2] != text.shape:
            shape = None if logits is None else tuple(logits.shape)
            wanted = f"({text.shape[0]}, {text.shape[1]}, vocabulary)"
            raise self.refused(
                f"expected logits {wanted}, not {shape}; `call` can ask it otherwise"
            )
        return logits

    def decode(
        self,
        row: Int[Tensor, "batch m"],
        memory: None,
        masks: Masks,
        cache: Cache | None = None,
        start: int = 0,
    ) -> Float[Tensor, "batch m vocab"]:
        return self.forward(row)
