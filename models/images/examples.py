"""Example images, drawn by code: the same pixels on every machine."""

from functools import cache
from io import BytesIO

import numpy as np
from PIL import Image

from models.images.file import ImageFile

EXAMPLE_SIDE = 224  # pixels
_SKY, _GRASS = (207, 226, 243), (106, 168, 79)
_RED, _YELLOW, _BLUE = (204, 51, 51), (241, 194, 50), (61, 90, 160)


def _circle(x: np.ndarray, y: np.ndarray, at: tuple[int, int], radius: int) -> np.ndarray:
    return (x - at[0]) ** 2 + (y - at[1]) ** 2 < radius**2


def _square(x: np.ndarray, y: np.ndarray, at: tuple[int, int], half: int) -> np.ndarray:
    return (abs(x - at[0]) < half) & (abs(y - at[1]) < half)


def _shapes(circle: tuple[int, int], square: tuple[int, int]) -> np.ndarray:
    """Return a red circle and a blue square with a yellow middle, on grass below a sky."""
    y, x = np.mgrid[:EXAMPLE_SIDE, :EXAMPLE_SIDE]
    picture = np.empty((EXAMPLE_SIDE, EXAMPLE_SIDE, 3), np.uint8)
    picture[:] = _SKY
    for where, colour in (
        (y >= 150, _GRASS),
        (_circle(x, y, circle, 38), _RED),
        (_square(x, y, square, 40), _BLUE),
        (_square(x, y, square, 14), _YELLOW),
    ):
        picture[where] = colour
    return picture


_PICTURES = {
    "circle and square": lambda: _shapes((64, 84), (158, 130)),
    "square and circle": lambda: _shapes((160, 84), (66, 130)),
}
EXAMPLES = tuple(_PICTURES)


@cache
def example(name: str = EXAMPLES[0]) -> ImageFile:
    """Return one of EXAMPLES as a PNG file."""
    content = BytesIO()
    Image.fromarray(_PICTURES[name]()).save(content, "PNG")
    return ImageFile(name, content.getvalue())
