"""A module of the user's own that reads an image: its owner's function cuts it into patches."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from PIL import Image
from torch import Tensor, nn

from models.architectures.base import CLASSES_OUTPUT, IMAGE_FIELD, Answers, Field
from models.hub.sizes import HubConfig
from models.hub.user_module.model import CallModule, UserModel
from models.hub.user_module.tokenizer import PADDING_ID, UserTokenizer, describe_error
from models.images import EXAMPLES, ImageFile, PatchGrid, PatchRow, decoded, example
from models.images.colours import ColourScale
from models.layers.masks import SiteKind
from models.tokenizers.base import Encoding, Tokenizer
from models.trace.outputs import ClassProbabilities, Output

PATCHES_FIELD = "patches"
EncodeImage = Callable[[Any], "Patches"]


@dataclass(frozen=True)
class Patches:
    """The input of a module that reads an image, and the tokens of that image.

    `pixels` (batch of 1, channel, height, width) is the argument of the module. Its tokens are
    `rows` × `columns` patches, row by row, with special tokens `before` and `after` them.
    """

    pixels: Tensor  # checked where it is used, as it is the owner's
    rows: int
    columns: int
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class UserImageTokenizer(UserTokenizer):
    """The owner's function for images as a tokenizer. Raises ValueError if the function fails."""

    def __init__(self, encode_image: EncodeImage) -> None:
        super().__init__(lambda text: [], None, "image")
        self._encode_image = encode_image

    def encode_image(self, file: str) -> PatchRow:
        patches = self._patches(decoded(cast(ImageFile, file)))
        if patches.rows < 1 or patches.columns < 1:
            raise ValueError(
                f"an image needs at least one patch, got {patches.rows} × {patches.columns}"
            )
        grid = PatchGrid(patches.rows, patches.columns, patches.before, patches.after)
        pixels = patches.pixels[0]
        numbers, colours = pixels.detach().cpu(), self._colours
        digest = hashlib.sha256(numbers.contiguous().numpy().tobytes()).hexdigest()
        seen = colours.seen(numbers.float()) if colours else _stretch(numbers.float())
        return PatchRow.of(file, grid, pixels, seen, digest, is_stretched=colours is None)

    def _patches(self, image: Image.Image) -> Patches:
        try:
            patches = self._encode_image(image)
        except Exception as error:  # it is the owner's, and may raise anything
            raise ValueError(f"encode_image fails ({describe_error(error)})") from error
        if (
            not isinstance(patches, Patches)
            or patches.pixels.dim() != 4
            or len(patches.pixels) != 1
        ):
            raise ValueError(
                "encode_image should return models.Patches with pixels (1, channel, height, width)"
            )
        return patches

    @cached_property
    def _colours(self) -> ColourScale | None:
        """The colours of the owner's pixels; None if images of one colour do not show them."""
        try:
            scale = ColourScale.of(self._middle)
            return scale if scale.holds(self._middle) else None
        except ValueError:
            return None

    def _middle(self, colour: str) -> Float[Tensor, " channel"]:
        size = decoded(example()).size
        pixels = self._patches(Image.new("RGB", size, colour)).pixels[0].detach().cpu().float()
        return pixels[:, pixels.shape[1] // 2, pixels.shape[2] // 2]

    def token(self, i: int) -> str:
        return "[pad]" if i == PADDING_ID else str(int(i))

    def to_json(self) -> str:
        return json.dumps({"own": True, "field": "image"})


def _stretch(
    pixels: Float[Tensor, "channel height width"],
) -> Float[Tensor, "height width 3"]:
    """Return the mean of the channels in grey, black where it is smallest."""
    mean = pixels.mean(0)
    least, most = mean.amin(), mean.amax()
    grey = (mean - least) / (most - least).clamp(min=1e-6)
    return grey[..., None].repeat(1, 1, 3)


class UserImageModel(UserModel):
    """A module that reads an image; with names of classes, its answer is their logits."""

    streams = (PATCHES_FIELD,)
    kinds = (SiteKind("self", "encoder", "self", PATCHES_FIELD, PATCHES_FIELD),)

    def __init__(
        self, module: nn.Module, config: HubConfig, call: CallModule, classes: Sequence[str]
    ) -> None:
        super().__init__(module, config, "image", call)
        self.fields = (Field("image", PATCHES_FIELD, kind=IMAGE_FIELD),)
        self.names = tuple(classes)
        self.answer_description = "a class of the image" if classes else self.answer_description

    def inputs(self, rows: Sequence[Mapping[str, Encoding]]) -> tuple[Tensor, ...]:
        """Return the ids and the pixels of the rows.

        Raises ValueError for images of different sizes.
        """
        images = [cast(PatchRow, row[PATCHES_FIELD]) for row in rows]
        if len({(image.pixels.shape, image.grid) for image in images}) > 1:
            raise ValueError("images of different sizes cannot run as one batch")
        ids = torch.tensor([image.ids for image in images], device=self.device)
        return ids, torch.stack([image.pixels for image in images]).to(self.device)

    def forward(self, text: Int[Tensor, "batch n"], *tensors: Tensor) -> Answers:
        """Return the module's logits of the classes, or its first tensor.

        Raises InputError unless there is a logit for each class.
        """
        if not self.names:
            return super().forward(text, *tensors)
        logits, n = self.watched_output(text, tensors), len(self.names)
        if logits is None or logits.shape != (len(text), n):
            shape = None if logits is None else tuple(logits.shape)
            raise self.refused(f"expected logits ({len(text)}, {n}) of the classes, not {shape}")
        return {CLASSES_OUTPUT: logits}

    def outputs(
        self, answers: Answers, streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> dict[str, Output]:
        if not self.names:
            return super().outputs(answers, streams, tokenizer)
        return {
            CLASSES_OUTPUT: ClassProbabilities(
                PATCHES_FIELD, None, self.names, answers[CLASSES_OUTPUT]
            )
        }

    def answer(
        self, outputs: Mapping[str, Output], streams: Mapping[str, Encoding], tokenizer: Tokenizer
    ) -> str:
        return cast(ClassProbabilities, outputs[CLASSES_OUTPUT]).predicted if self.names else ""


def example_images() -> list[ImageFile]:
    """Return the images that a module of the user's own opens with."""
    return [example(name) for name in EXAMPLES]
