"""Turn an image into the input of a model, as the folder's preprocessor_config.json says.

The library's own image processor does it. Its settings are untrusted, so every number in them is
bounded, and the result must have the same size for images of any shape.
"""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from pathlib import Path
from typing import Any

from jaxtyping import Float
from PIL import Image
from torch import Tensor

from models.errors import CheckpointError, InputError
from models.hub.files import PREPROCESSOR
from models.images import EXAMPLES, ImageFile, PatchGrid, PatchRow, decoded, example
from models.images.colours import ColourScale
from models.tokenizers.base import Encoding, Tokenizer

MAX_SIZE = 2048  # of any number in the settings: sides, in pixels
PLAIN_SIDE = 64  # pixels, of images of one colour
PREPROCESSOR_MISSING = (
    f"{PREPROCESSOR} is missing, which says how an image becomes the numbers that this model reads"
)
READS_IMAGE_ONLY = "this model reads an image, not a text"


def check_numbers(settings: Any) -> None:
    """Raise CheckpointError for a number in the settings that is too large for pixels."""
    if isinstance(settings, dict):
        settings = list(settings.values())
    for value in settings if isinstance(settings, list) else ():
        if isinstance(value, dict | list):
            check_numbers(value)
        elif isinstance(value, int | float) and not -MAX_SIZE <= value <= MAX_SIZE:
            raise CheckpointError(
                f"{PREPROCESSOR} has the number {value:,}; the largest allowed is {MAX_SIZE:,}"
            )


class ImageProcessor:
    """The library's image processor of a folder.

    `shape` is that of its pixels, whatever the image.
    """

    def __init__(self, folder: Path, transformers: Any) -> None:
        """Read the processor and try it on the examples. Raises CheckpointError."""
        if not (folder / PREPROCESSOR).is_file():
            raise CheckpointError(PREPROCESSOR_MISSING)
        self.settings = json.loads((folder / PREPROCESSOR).read_text("utf-8"))
        check_numbers(self.settings)
        self._library = transformers.AutoImageProcessor.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        shapes = {tuple(self.pixels(image).shape) for image in _differently_shaped()}
        if len(shapes) > 1 or len(shape := next(iter(shapes))) != 3 or shape[0] != 3:
            listed = " and ".join(" × ".join(map(str, shape)) for shape in sorted(shapes))
            raise CheckpointError(
                f"its image processor turns images into {listed} numbers; Attnscope opens models "
                "that read three colours of images of one size"
            )
        self.shape: tuple[int, ...] = shape

    def pixels(self, image: Any) -> Float[Tensor, "channel height width"]:
        """Return the model's input for an image in RGB. Raises CheckpointError."""
        try:
            pixels = self._library(image, return_tensors="pt")["pixel_values"]
        except Exception as error:  # the library may raise anything
            reason = (
                ""
                if isinstance(error, AttributeError | TypeError | KeyError)
                else f": {error!s:.200}"
            )
            raise CheckpointError(f"{PREPROCESSOR} cannot be used for an image{reason}") from None
        if not isinstance(pixels, Tensor) or pixels.shape[:1] != (1,):
            raise CheckpointError("its image processor makes more than one input from an image")
        return pixels[0].float()

    def seen(
        self, pixels: Float[Tensor, "channel height width"]
    ) -> Float[Tensor, "height width channel"]:
        """Return the image that these pixels show, with values from 0 to 1."""
        return self._colours.seen(pixels)

    @cached_property
    def _colours(self) -> ColourScale:
        """The scale of each channel, from images of one colour: processors ignore some settings."""
        return ColourScale.of(self._middle)

    def _middle(self, colour: str) -> Float[Tensor, " channel"]:
        pixels = self.pixels(Image.new("RGB", (PLAIN_SIDE, PLAIN_SIDE), colour))
        return pixels[:, pixels.shape[1] // 2, pixels.shape[2] // 2]


def _differently_shaped() -> list[Any]:
    image = decoded(example())
    return [image, image.resize((97, 61)), image.resize((43, 89))]


class PatchTokenizer(Tokenizer):
    """An image processor as a tokenizer: patches for tokens."""

    def __init__(
        self, processor: ImageProcessor, grid: PatchGrid, read_size: tuple[int, int]
    ) -> None:
        """Take the grid, and the height and width of the pixels that its patches read."""
        self._processor, self.grid, self._read_size = processor, grid, read_size
        self.special_ids, self._of_bytes = {"pad": len(grid.tokens)}, False

    @property
    def vocab_size(self) -> int:
        return len(self.grid.tokens)

    def special(self, name: str) -> None:
        return

    def encode(self, text: str, *, before: str = "", after: str = "") -> Encoding:
        raise InputError(READS_IMAGE_ONLY, "image")

    def encode_image(self, file: ImageFile) -> PatchRow:
        """Return the row of patches of an image.

        Raises:
            ValueError: it cannot be decoded.
        """
        pixels = self._processor.pixels(decoded(file))
        digest = hashlib.sha256(pixels.numpy().tobytes()).hexdigest()
        height, width = self._read_size
        seen = self._processor.seen(pixels[:, :height, :width])
        return PatchRow.of(file, self.grid, pixels, seen, digest)

    def words(self, text: str) -> None:
        """None: patches have no words."""
        return

    def decode(self, ids: Any) -> str:
        return ""

    def token(self, i: int) -> str:
        return "[pad]" if i == self.pad_id else self.grid.tokens[int(i)]

    def is_special(self, i: int) -> bool:
        return i == self.pad_id or self.grid.patch(int(i)) is None

    def to_json(self) -> str:
        """Return the settings and the grid that identify this tokenizer, as JSON."""
        return json.dumps({"preprocessor": self._processor.settings, "tokens": self.grid.tokens})

    @property
    def examples(self) -> list[ImageFile]:
        """The images that every model of this kind opens with."""
        return [example(name) for name in EXAMPLES]
