"""A model with a text tower and an image tower that scores how well the two match (CLIP)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from models.architectures.base import IMAGE_FIELD, Answers, Field
from models.errors import CheckpointError
from models.hub.close import is_close
from models.hub.images.model import PATCHES_STREAM
from models.hub.images.processor import PatchTokenizer
from models.hub.model import HubModel
from models.hub.recording.context import PassContext
from models.hub.tokenizer import CLOSING, OPENING, HubTokenizer
from models.images import EXAMPLES, ImageFile, PatchGrid, PatchRow, example
from models.layers.masks import SiteKind
from models.number_text import decimal
from models.tokenizers.base import Encoding, Tokenizer
from models.trace.outputs import Output, Similarity

SIMILARITY_OUTPUT = "similarity"
NO_FILLER = -1
TOWER_MODULES = TEXT_TOWER, IMAGE_TOWER = "text_model", "vision_model"


class TextImageModel(HubModel):
    """Two towers that do not read each other; the answer is the cosine of their vectors."""

    fields = (
        Field("text", "text", before=OPENING, after=CLOSING),
        Field("image", PATCHES_STREAM, kind=IMAGE_FIELD),
    )
    streams: ClassVar[tuple[str, ...]] = ("text", PATCHES_STREAM)
    kinds = (
        SiteKind(
            "text_self", "encoder", "self", "text", "text",
            "Text self-attention", "Text self", side="Text tower",
        ),
        SiteKind(
            "image_self", "encoder", "self", PATCHES_STREAM, PATCHES_STREAM,
            "Image self-attention", "Image self", side="Image tower",
        ),
    )  # fmt: skip
    pads = False  # pages pair no second text with its image
    answer_description = "how well a text and an image match"

    def __init__(
        self, *args: Any, grid: PatchGrid, trial: Tensor, text_limit: int, **settings: Any
    ) -> None:
        """Wrap a module that reads images of this grid and texts of up to `text_limit` tokens."""
        super().__init__(*args, **settings)
        self.grid, self._trial, self.text_limit = grid, trial, text_limit
        self.filler = NO_FILLER  # id that pads each text to the limit (filler_of)

    @property
    def token_table(self) -> Tensor:
        return self.module.get_submodule(TEXT_TOWER).get_input_embeddings().weight

    def repeated(self, ids: Shaped[Tensor, ...]) -> tuple[Tensor, ...]:
        return ids, self._trial.to(self.device).expand(len(ids), -1, -1, -1)

    def stream_limit(self, stream: str) -> int:
        return self.text_limit if stream == "text" else len(self.grid.tokens)

    def completed(
        self, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Encoding]:
        """Return the rows, the text padded to the limit if the model was trained on such rows."""
        if self.filler == NO_FILLER:
            return dict(streams)
        row = streams["text"]
        n = self.text_limit - len(row.ids)
        filled = replace(
            row,
            ids=(*row.ids, *[self.filler] * n),
            tokens=(*row.tokens, *[tokenizer.token(self.filler)] * n),
            offsets=(*row.offsets, *[None] * n),
        )
        return {**streams, "text": filled}

    def inputs(self, rows: Sequence[Mapping[str, Encoding]]) -> tuple[Tensor, ...]:
        texts = [row["text"].ids for row in rows]
        pixels = torch.stack([cast(PatchRow, row[PATCHES_STREAM]).pixels for row in rows])
        ids = self.padded(texts, self.config.pad_id)
        return ids, pixels.to(self.device, self.module.dtype)

    def forward(
        self, text: Int[Tensor, "batch n"], pixels: Float[Tensor, "batch channel height width"]
    ) -> Answers:
        of_text = self.text_vectors(text)
        of_image = self._vectors("image", self._image_context(len(pixels)), pixel_values=pixels)
        cosine = torch.nn.functional.cosine_similarity(of_text, of_image, dim=-1)
        return {SIMILARITY_OUTPUT: torch.stack([cosine, self.logit(cosine)], dim=-1)}

    def text_vectors(self, text: Int[Tensor, "batch n"]) -> Float[Tensor, "batch d_shared"]:
        """Return the text tower's vectors, to be compared with those of images."""
        return self._vectors("text", self.pass_context(text), **self.row(text))

    def logit(self, cosine: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
        """Return the model's logit of a pair: its cosine times a factor, plus a bias if any."""
        return cosine * self.module.logit_scale.exp() + (self.logit_bias or 0.0)

    @property
    def logit_bias(self) -> float | None:
        """The bias that is added to every logit; None for a model without one."""
        bias = getattr(self.module, "logit_bias", None)
        return None if bias is None else float(bias)

    def _vectors(self, tower: str, context: PassContext, **inputs: Any) -> Tensor:
        ask = getattr(self.module, f"get_{tower}_features")
        features = self._ask(ask, context, {}, **inputs)
        return features if isinstance(features, Tensor) else features.pooler_output

    def _image_context(self, n_rows: int) -> PassContext:
        kind, n = self.kinds[1], len(self.grid.tokens)
        return PassContext(
            lambda frame: kind, n, n_key={PATCHES_STREAM: n}, groups=self.groups, n_rows=n_rows
        )

    def examples(self, tokenizer: Tokenizer) -> list[Any]:
        images = [example(name) for name in _CAPTIONS]
        return [[caption, image] for caption, image in zip(_CAPTIONS.values(), images, strict=True)]

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        cosine, logit = answers[SIMILARITY_OUTPUT].tolist()
        return {
            SIMILARITY_OUTPUT: Similarity("text", PATCHES_STREAM, cosine, logit, self.logit_bias)
        }

    def answer(
        self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> str:
        return f"cosine {decimal(cast(Similarity, outputs[SIMILARITY_OUTPUT]).cosine, 3)}"


def check_towers(module: nn.Module) -> None:
    """Raise CheckpointError for a module without a text tower and an image tower."""
    if odd := [name for name in (*TOWER_MODULES, "logit_scale") if not hasattr(module, name)]:
        raise CheckpointError(
            f"it reads images and texts, but has no {' and no '.join(odd)}, by which its towers are found"
        )


@torch.no_grad()
def check_similarity(model: TextImageModel, ids: Int[Tensor, "1 n"]) -> None:
    """Raise CheckpointError if the two towers give a different logit than one call."""
    text, pixels = model.repeated(ids)
    expected = model.module(input_ids=text, pixel_values=pixels).logits_per_text.diagonal()
    if not is_close(model, model(text, pixels)[SIMILARITY_OUTPUT][:, 1], expected):
        raise CheckpointError(
            "its towers, run one by one, give a different similarity than in one call"
        )


@torch.no_grad()
def filler_of(model: TextImageModel, ids: Int[Tensor, "1 n"], library: Any) -> int:
    """Return the id that pads texts to the limit, or NO_FILLER if their vectors ignore padding.

    `ids` is the row of a text with its special tokens. A model whose vector depends on its padding
    (SigLIP reads the last token) was trained on rows of one length. Its `library` tokenizer says
    whether padding is masked, as pad_id is.
    """
    is_masked = "attention_mask" in library.model_input_names
    filler = model.config.pad_id if is_masked else model.config.fill_id
    filled = torch.cat([ids, torch.full_like(ids[:, :1], filler)], dim=1)
    if is_close(model, model.text_vectors(filled), model.text_vectors(ids)):
        return NO_FILLER
    return filler


class TextImageTokenizer(HubTokenizer):
    """The tokenizer of a folder's texts, with its image processor."""

    def __init__(self, library: Any, special_ids: dict[str, int], images: PatchTokenizer) -> None:
        super().__init__(library, special_ids, len(library))
        self._images = images

    def encode_image(self, file: str) -> Encoding:
        return self._images.encode_image(cast(ImageFile, file))

    def to_json(self) -> str:
        return json.dumps([super().to_json(), self._images.to_json()])


_CAPTIONS = {EXAMPLES[0]: "a circle and a square"} | {
    name: f"a drawing of {name}" for name in EXAMPLES[1:]
}
