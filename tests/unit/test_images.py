"""Image files: their pixels as read, and attacks on the decoder."""

import os
import struct
import time
import zlib
from contextlib import suppress
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from models.errors import CheckpointError
from models.images import EXAMPLES, ImageFile, decoded, example, read
from models.images.file import MAX_ASPECT_RATIO, MAX_IMAGE_BYTES, MAX_PIXELS, MAX_SIDE


def saved(image: Image.Image, form: str = "PNG", **how: object) -> ImageFile:
    content = BytesIO()
    image.save(content, form, **how)
    return ImageFile("a picture", content.getvalue())


def noise(wide: int = 41, tall: int = 23, mode: str = "RGB") -> Image.Image:
    values = np.random.default_rng(1).integers(0, 256, (tall, wide, 3), np.uint8)
    return Image.fromarray(values).convert(mode)


@pytest.mark.parametrize(
    ("form", "how"),
    [("PNG", {}), ("WEBP", {"lossless": True}), ("JPEG", {"quality": 95, "subsampling": 0})],
)
def test_the_pixels_are_those_that_were_saved(form: str, how: dict) -> None:
    image = decoded(example()).resize((41, 23)) if form == "JPEG" else noise()
    shown = decoded(saved(image, form, **how))
    assert (shown.mode, shown.size, shown.info) == ("RGB", image.size, {})
    apart = np.abs(np.asarray(shown, int) - np.asarray(image, int)).mean()
    assert apart < 5 if form == "JPEG" else apart == 0


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK"])
def test_each_usual_kind_of_pixels_becomes_rgb(mode: str) -> None:
    form = "JPEG" if mode == "CMYK" else "PNG"
    assert decoded(saved(noise(mode=mode), form)).mode == "RGB"


def test_transparent_pixels_become_white() -> None:
    clear = Image.new("RGBA", (5, 7), (255, 0, 0, 0))
    assert decoded(saved(clear)).getcolors() == [(35, (255, 255, 255))]


@pytest.mark.parametrize("turn", range(1, 9))
def test_an_image_is_upright_and_no_other_metadata_is_kept(turn: int) -> None:
    image, exif = noise(), Image.Exif()
    exif[0x0112] = turn
    exif[0x010E] = "<script>a description</script>"
    shown = decoded(saved(image, exif=exif.tobytes()))
    assert shown.size == (image.size if turn < 5 else image.size[::-1])
    assert not shown.getexif()
    corners = {image.getpixel((x, y)) for x in (0, 40) for y in (0, 22)}
    assert {shown.getpixel((x, y)) for x in (0, shown.width - 1) for y in (0, shown.height - 1)} == corners  # fmt: skip
    # where the first row and the first column of the file are, by EXIF 2.32, 4.6.4
    first = {1: (0, 0), 2: (1, 0), 3: (1, 1), 4: (0, 1), 5: (0, 0), 6: (1, 0), 7: (1, 1), 8: (0, 1)}
    right, low = first[turn]
    corner = (right * (shown.width - 1), low * (shown.height - 1))
    assert shown.getpixel(corner) == image.getpixel((0, 0))


def png(wide: int, tall: int, content: bytes = b"", *more: tuple[bytes, bytes]) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        body = name + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", wide, tall, 8, 2, 0, 0, 0))
    parts = b"".join(chunk(*each) for each in more)
    return (
        b"\x89PNG\r\n\x1a\n" + head + parts + chunk(b"IDAT", zlib.compress(content)) + chunk(b"IEND", b"")
    )  # fmt: skip


def webp(wide: int, tall: int, kind: bytes = b"VP8X") -> bytes:
    if kind == b"VP8X":
        head = bytes(4) + (wide - 1).to_bytes(3, "little") + (tall - 1).to_bytes(3, "little")
    elif kind == b"VP8L":
        head = b"\x2f" + ((wide - 1) | (tall - 1) << 14).to_bytes(4, "little") + bytes(5)
    else:
        head = bytes(3) + b"\x9d\x01\x2a" + struct.pack("<HH", wide, tall)
    body = b"WEBP" + kind + struct.pack("<I", len(head)) + head + bytes(64)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def progressive(scans: int) -> bytes:
    """Return a JPEG of sixteen million pixels with this many scans, of 31 bytes and 9 ms each."""
    grey = Image.new("L", (4000, 4000), 128)
    content = saved(grey, "JPEG", progressive=True).content
    last = content.rindex(b"\xff\xda")
    return content[:last] + content[last:-2] * scans + content[-2:]


TOO_LARGE, SHAPE, DAMAGED = "at most 16 million", "8 times the other", "damaged, or not a"
JPEG = saved(noise(), "JPEG").content
ATTACKS = {
    "nothing": (b"", DAMAGED),
    "text": (b"<svg onload=alert(1)>", DAMAGED),
    "zeros": (bytes(MAX_IMAGE_BYTES), DAMAGED),
    "too many bytes": (bytes(MAX_IMAGE_BYTES + 1), "5,000,001 bytes; at most 5,000,000"),
    "a bomb of pixels": (png(30_000, 30_000, bytes(10)), TOO_LARGE),
    "a bomb of zeros": (png(8000, 8000, bytes(3 * 8000 * 800)), TOO_LARGE),
    "a long side": (png(MAX_SIDE + 1, 2000), TOO_LARGE),
    "a line": (png(8000, 10), SHAPE),
    "a column": (png(10, 8000), SHAPE),
    "no pixels": (png(0, 5), "0 × 5 pixels|damaged"),
    "cut off": (saved(noise(200, 200)).content[:9000], DAMAGED),
    "a cut JPEG": (JPEG[: len(JPEG) // 2], DAMAGED),
    "a WebP bomb": (webp(16383, 16383), TOO_LARGE),
    "a lossless WebP bomb": (webp(16383, 16383, b"VP8L"), TOO_LARGE),
    "a plain WebP bomb": (webp(16383, 16383, b"VP8 "), TOO_LARGE),
    "half a WebP header": (webp(5, 5)[:25], "cut off"),
    "an empty WebP": (webp(50, 50), DAMAGED),
    "scans": (progressive(5000), r"scans; at most 100"),
    "a text bomb": (
        png(20, 20, bytes(61 * 20), (b"zTXt", b"a\0\0" + zlib.compress(bytes(200_000_000)))),
        DAMAGED,
    ),
    "a GIF": (saved(noise(), "GIF").content, DAMAGED),
    "a TIFF": (saved(noise(), "TIFF").content, DAMAGED),
    "a PDF": (b"%PDF-1.4\n" + bytes(99), DAMAGED),
    "PostScript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", DAMAGED),
    "16 bits": (
        saved(Image.fromarray(np.zeros((9, 9), np.uint16))).content,
        "not 8 bits per colour",
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", ATTACKS)
def test_a_hostile_file_is_refused_at_once_with_a_sentence(how: str) -> None:
    content, message = ATTACKS[how]
    begun = time.process_time()
    with pytest.raises(ValueError, match=message) as refused:
        decoded(ImageFile(how, content))
    assert time.process_time() - begun < 5
    assert len(str(refused.value)) < 200
    assert "Traceback" not in str(refused.value)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
def test_a_file_with_any_byte_damaged_is_decoded_or_refused(form: str) -> None:
    content, rng = saved(noise(60, 50), form).content, np.random.default_rng(3)
    for at in rng.integers(0, len(content), 150):
        damaged = bytearray(content)
        damaged[at] ^= int(rng.integers(1, 256))
        with suppress(ValueError):
            shown = decoded(ImageFile("damaged", bytes(damaged)))
            assert shown.width * shown.height <= MAX_PIXELS
            assert max(shown.size) <= MAX_ASPECT_RATIO * min(shown.size)


def test_a_broken_block_of_metadata_does_not_lose_the_image() -> None:
    exif = b"Exif\0\0MM\0*" + bytes(range(256)) * 8
    content = saved(noise(), "JPEG").content
    with_exif = content[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + content[2:]
    assert decoded(ImageFile("x", with_exif)).size == (41, 23)


def test_examples_are_the_same_each_time_and_differ_from_each_other() -> None:
    images = [np.asarray(decoded(example(name))) for name in EXAMPLES]
    assert all(image.shape == (224, 224, 3) for image in images)
    assert (images[0] != images[1]).any()
    circle = images[0][84, 64]
    assert tuple(circle) == (204, 51, 51)
    assert tuple(images[0][130, 158]) == (241, 194, 50)
    example.cache_clear()
    assert (np.asarray(decoded(example(EXAMPLES[0]))) == images[0]).all()


def test_an_image_file_is_a_value_named_by_its_file(tmp_path) -> None:
    (tmp_path / "owl.png").write_bytes(example().content)
    file = read(tmp_path / "owl.png")
    assert (str(file), file.content) == ("owl.png", example().content)
    same, other = ImageFile("owl.png", file.content), ImageFile("owl.png", b"other")
    assert file == same
    assert hash(file) == hash(same)
    assert file != other
    assert file != "owl.png"
    assert not file == "owl.png"  # noqa: SIM201
    assert str(ImageFile("a\u202eb\x00" * 40, b"")) != "a\u202eb\x00" * 40
    assert len(ImageFile("a" * 999, b"")) <= 60


def test_a_file_is_read_within_its_limit_and_not_through_a_pipe(tmp_path) -> None:
    (tmp_path / "large.png").write_bytes(bytes(MAX_IMAGE_BYTES + 1))
    os.mkfifo(tmp_path / "pipe.png")
    for name, message in (("large.png", "larger than"), ("pipe.png", "not a regular"), ("no.png", "cannot be read")):  # fmt: skip
        with pytest.raises(CheckpointError, match=message):
            read(tmp_path / name)
