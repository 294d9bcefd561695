"""An image file, checked against limits before it is decoded, because it is untrusted."""

from __future__ import annotations

import struct
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from models.checkpoint_files import read_bytes
from models.field_file import FieldFile

MAX_IMAGE_BYTES = 5_000_000  # bytes of a file
MAX_PIXELS = 16_000_000
MAX_SIDE = 8192  # pixels
MAX_ASPECT_RATIO = 8  # resizing by the shorter side makes the longer one longer
FORMATS = ("PNG", "JPEG", "WEBP")
MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")  # 8 bits a channel
MAX_SCANS = 100  # of a JPEG; each passes over all pixels, and up to 12 are usual
_AT_MOST = f"at most {MAX_PIXELS / 1e6:g} million are read, with sides of at most {MAX_SIDE:,}"
_SCAN = b"\xff\xda"
_ORIENTATION = 0x0112  # of EXIF, the only metadata that is read
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class ImageFile(FieldFile):
    """The value of an image field: the bytes of an image file."""

    unnamed = "image"


def read(path: str | Path) -> ImageFile:
    """Read an image file of at most MAX_IMAGE_BYTES bytes.

    Raises:
        CheckpointError: it cannot be read, is not a regular file or is too large.
    """
    path = Path(path)
    return ImageFile(path.name, read_bytes(path, MAX_IMAGE_BYTES))


def decoded(file: ImageFile) -> Image.Image:
    """Return the image as RGB, upright, without metadata; transparent pixels become white.

    Raises:
        ValueError: it is too large, in another format, or damaged; the message says which.
    """
    _check_content(file.content)
    try:
        with Image.open(BytesIO(file.content), formats=FORMATS) as image:
            _check_size(*image.size)
            if image.mode not in MODES:
                raise _Refused(f"its pixels are of mode {image.mode}, not 8 bits per colour")
            turn = _TURNS.get(_orientation(image))
            plain = _without_transparency(image)
    except _Refused:
        raise
    except Image.DecompressionBombError:
        raise _Refused(f"the image has too many pixels; {_AT_MOST}") from None
    except Exception:  # for a damaged file, a decoder may raise any exception
        raise _Refused("the file is damaged, or not a PNG, JPEG or WebP image") from None
    return plain if turn is None else plain.transpose(turn)


class _Refused(ValueError):
    """An error of ours, not of a decoder."""


def _check_content(content: bytes) -> None:
    if len(content) > MAX_IMAGE_BYTES:
        raise _Refused(f"the file has {len(content):,} bytes; at most {MAX_IMAGE_BYTES:,} are read")
    if size := _webp_size(content):  # its decoder allocates memory as soon as it is opened
        _check_size(*size)
    if (scans := content.count(_SCAN)) > MAX_SCANS and content.startswith(b"\xff\xd8"):
        raise _Refused(f"the JPEG has {scans:,} scans; at most {MAX_SCANS} are decoded")


def _check_size(width: int, height: int) -> None:
    if width < 1 or height < 1:
        raise _Refused(f"the image has {width} × {height} pixels")
    if width * height > MAX_PIXELS or max(width, height) > MAX_SIDE:
        raise _Refused(f"the image has {width:,} × {height:,} pixels; {_AT_MOST}")
    if max(width, height) > MAX_ASPECT_RATIO * min(width, height):
        raise _Refused(
            f"the image has {width:,} × {height:,} pixels; one side may be at most {MAX_ASPECT_RATIO} "
            "times the other"
        )


def _webp_size(content: bytes) -> tuple[int, int] | None:
    """Return the width and height in a WebP header (RFC 9649); None for any other file.

    Raises ValueError for a header that is cut off.
    """
    if content[:4] != b"RIFF" or content[8:12] != b"WEBP":
        return None
    kind, header = content[12:16], content[20:30]
    if len(header) < 10:
        raise _Refused("the file is cut off")
    if kind == b"VP8X":
        width, height = (int.from_bytes(header[i : i + 3], "little") for i in (4, 7))
        return width + 1, height + 1
    if kind == b"VP8L":
        bits = int.from_bytes(header[1:5], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = struct.unpack("<HH", header[6:10])
    return width & 0x3FFF, height & 0x3FFF


def _orientation(image: Image.Image) -> Any:
    """Return the orientation in the metadata; None if it cannot be read."""
    try:
        return image.getexif().get(_ORIENTATION)
    except Exception:  # damaged or malformed metadata
        return None


def _without_transparency(image: Image.Image) -> Image.Image:
    """Return the pixels alone, in RGB, on white."""
    if image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info:
        image = image.convert("RGBA")
        paper = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(paper, image)
    image = image.convert("RGB")
    return Image.frombytes("RGB", image.size, image.tobytes())
