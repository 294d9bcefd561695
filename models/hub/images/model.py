"""A vision model as an Architecture: the patches of an image are its stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from models.architectures.base import CLASSES_OUTPUT, IMAGE_FIELD, Answers, Field
from models.hub.images.processor import PatchTokenizer
from models.hub.labels import compares_labels, describe_labels, label_output, labels_in_words
from models.hub.model import HubModel
from models.hub.readers import HeadReader, OutputHead
from models.hub.recording.context import PassContext
from models.images import PatchGrid, PatchRow
from models.layers.masks import SiteKind
from models.tokenizers.base import Encoding, Tokenizer
from models.trace.outputs import Output

PATCHES_STREAM = "patches"


class ImageModel(HubModel):
    """A model that reads the patches of one image and returns vectors."""

    fields = (Field("image", PATCHES_STREAM, kind=IMAGE_FIELD),)
    streams: ClassVar[tuple[str, ...]] = (PATCHES_STREAM,)
    kinds = (SiteKind("self", "encoder", "self", PATCHES_STREAM, PATCHES_STREAM),)
    pads = False  # all its rows are of one length

    def __init__(self, *args: Any, grid: PatchGrid, trial: Tensor, **settings: Any) -> None:
        """Wrap a module that reads `grid`; `trial` is the image of trial runs."""
        super().__init__(*args, **settings)
        self.grid, self._trial = grid, trial

    def repeated(self, ids: Shaped[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return the image of trial runs, whatever the ids: a model reads one size of images."""
        return (self._trial.to(self.device),)

    def inputs(self, rows: Sequence[Mapping[str, Encoding]]) -> tuple[Tensor, ...]:
        pixels = torch.stack([cast(PatchRow, row[PATCHES_STREAM]).pixels for row in rows])
        return (pixels.to(self.device, self.module.dtype),)

    def forward(self, pixels: Float[Tensor, "batch channel height width"]) -> Answers:
        return self.answers_of(self.ask(self._context(len(pixels)), pixel_values=pixels))

    def _context(self, n_rows: int) -> PassContext:
        kind, n = self.kinds[0], len(self.grid.tokens)
        return PassContext(
            lambda frame: kind, n, n_key={PATCHES_STREAM: n}, groups=self.groups, n_rows=n_rows
        )

    @property
    def token_table(self) -> None:
        """None: patches are not looked up in a table."""
        return

    def examples(self, tokenizer: Tokenizer) -> list[Any]:
        return list(cast(PatchTokenizer, tokenizer).examples)


class ImageClassifier(ImageModel, HeadReader):
    """One class for the whole image."""

    output_name = CLASSES_OUTPUT

    def __init__(
        self, *args: Any, names: Sequence[str], position: int | None, **settings: Any
    ) -> None:
        """Wrap a classifier that reads the last vector at `position`, or several if None."""
        super().__init__(*args, **settings)
        self.names, self.position = tuple(names), position
        self.answer_description = describe_labels(self.module, self.names, "image")

    @property
    def read_stream(self) -> str:
        return PATCHES_STREAM if self.head else ""

    def possible_heads(self) -> list[OutputHead]:
        """Return the candidate head, on the vector of the one token that is classified."""
        if self.position is None or not compares_labels(self.module, self.names):
            return []
        return [lambda x: self.module.classifier(x)]

    def answering(self, states: Float[Tensor, "batch n d_model"]) -> Float[Tensor, "batch d_model"]:
        return states[:, self.position or 0]

    def answers_of(self, output: Any) -> Answers:
        return {CLASSES_OUTPUT: output.logits}

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        return {
            CLASSES_OUTPUT: label_output(
                self.module, PATCHES_STREAM, self.position, self.names, answers[CLASSES_OUTPUT]
            )
        }

    def answer(
        self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> str:
        return labels_in_words(outputs[CLASSES_OUTPUT])
