"""A user's vision module: what `models.watch` accepts from its owner, and what it refuses."""

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

import models
from models import InputError
from models.images import EXAMPLES, ImageFile, PatchRow, decoded, example
from viz_app.drawing.image_map import image_map
from viz_app.drawing.payload import unpack

NAMES = ("cat", "dog", "owl")


class Vision(nn.Module):
    """2 × 3 patches of 4 × 4 pixels and a special token, two heads of 5 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.cls = nn.Conv2d(3, 10, 4, stride=4), nn.Parameter(torch.ones(1, 1, 10))
        self.qkv, self.out, self.head = nn.Linear(10, 30), nn.Linear(10, 10), nn.Linear(10, 3)

    def forward(self, pixels: Tensor) -> Tensor:
        x = torch.cat([self.cls, self.patches(pixels).flatten(2).transpose(1, 2)], 1)
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 5)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)
        self.weights = (q @ k.transpose(-2, -1) / 5**0.5).softmax(-1)
        return self.head((x + self.out(mixed.transpose(1, 2).flatten(2)))[:, 0])


class FeaturesOfPatches(Vision):
    """Features attend to features (XCiT), as many in a head as there are tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.cls = nn.Conv2d(3, 14, 4, stride=4), nn.Parameter(torch.ones(1, 1, 14))
        self.qkv, self.head = nn.Linear(14, 42), nn.Linear(14, 3)

    def forward(self, pixels: Tensor) -> Tensor:
        x = torch.cat([self.cls, self.patches(pixels).flatten(2).transpose(1, 2)], 1)
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 7)).permute(2, 0, 3, 4, 1)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.head((x + mixed.flatten(1, 2).mT)[:, 0])


def vision() -> Vision:
    torch.manual_seed(2)
    module = Vision().eval()
    for p in module.parameters():
        nn.init.normal_(p, std=0.4)
    return module


def encode_image(image: Any) -> models.Patches:
    pixels = torch.tensor(list(image.resize((12, 8)).tobytes()), dtype=torch.float32)
    return models.Patches(pixels.reshape(1, 8, 12, 3).permute(0, 3, 1, 2) / 255, 2, 3, ("[CLS]",))


def watched(**how: Any) -> models.Scope:
    return models.watch(vision(), **({"encode_image": encode_image, "classes": NAMES} | how))


def test_weights_and_logits_are_the_module_s_own() -> None:
    for name in EXAMPLES:
        trace, module = watched().run(example(name)), vision()
        logits = module(encode_image(decoded(example(name))).pixels)
        (site,) = trace.attention.values()
        assert (site.weights() - module.weights[0]).abs().max() < 1e-6
        assert torch.equal(trace.outputs["classes"].logits, logits[0])
        assert trace.output == NAMES[int(logits.argmax())]


def test_an_attention_over_features_is_refused_in_terms_of_an_image() -> None:
    torch.manual_seed(2)
    scope = models.watch(FeaturesOfPatches().eval(), encode_image=encode_image, classes=NAMES)
    with pytest.raises(InputError, match="as many tokens as a head has features") as error:
        scope.run(example())
    assert "text" not in str(error.value)


def test_an_image_that_a_module_fails_on_is_called_an_image() -> None:
    with pytest.raises(InputError, match=r"^Vision: cannot read this image \(ValueError: wide\)$"):
        watched(call=failing).run(example())


def failing(module: Vision, pixels: Tensor) -> Tensor:
    raise ValueError("wide")


def test_its_tokens_are_the_patches_and_the_image_is_the_one_that_was_given() -> None:
    row = watched().run(example()).streams["patches"]
    assert isinstance(row, PatchRow)
    assert row.tokens == ("[CLS]", "r1c1", "r1c2", "r1c3", "r2c1", "r2c2", "r2c3")
    assert row.grid.patch(4) == (1, 0)
    small = torch.tensor(list(decoded(example()).resize((12, 8)).tobytes())).reshape(8, 12, 3)
    assert (row.seen - small / 255).abs().max() < 1e-6


def flag(wide: int, tall: int) -> ImageFile:
    """Return an image of red, green and blue side by side."""
    image = Image.new("RGB", (wide, tall), "lime")
    image.paste("red", (0, 0, wide // 3, tall))
    image.paste("blue", (wide - wide // 3, 0, wide, tall))
    content = io.BytesIO()
    image.save(content, "PNG")
    return ImageFile("flag", content.getvalue())


def cropped(image: Any) -> Any:
    """Resize and crop an image to its middle, as most vision models do."""
    wide, tall = image.size
    side = min(wide, tall)
    left, top = (wide - side) // 2, (tall - side) // 2
    return image.resize((12, 8), box=(left, top, left + side, top + side))


def scaled(image: Any, mean: float = 0.4, std: float = 0.3, order: Any = (0, 1, 2)) -> Any:
    numbers = torch.tensor(np.asarray(cropped(image)) / 255, dtype=torch.float32).movedim(-1, 0)
    return models.Patches((numbers[list(order)][None] - mean) / std, 2, 3, ("[CLS]",))


READ = {
    "cropped": scaled,
    "channels turned round": lambda image: scaled(image, order=(2, 1, 0)),
    "darkened": lambda image: scaled(image.point(lambda value: value // 2)),
}  # fmt: skip


@pytest.mark.parametrize("how", READ)
def test_the_image_drawn_is_the_part_that_is_read_and_not_the_whole_file(how: str) -> None:
    for file in (flag(300, 100), example()):
        row = watched(encode_image=READ[how]).run(file).streams["patches"]
        wanted = torch.tensor(np.asarray(cropped(decoded(file)))) / 255
        assert not row.is_stretched
        assert (row.seen - wanted).abs().max() < 0.01  # of two shades of 255, where it is darkened
    assert (
        watched(encode_image=scaled).run(flag(300, 100)).streams["patches"].seen[..., 1].min() > 0.9
    )


def standardised(image: Any) -> models.Patches:
    patches = scaled(image)
    pixels = patches.pixels - patches.pixels.mean()
    return replace(patches, pixels=pixels / (pixels.std() + 1e-6))


def refuses_flat(image: Any) -> models.Patches:
    if len(image.getcolors() or "many") == 1:
        raise RuntimeError("an image of one colour")
    return scaled(image)


@pytest.mark.parametrize("encode", [standardised, refuses_flat])
def test_pixels_with_unknown_colours_are_drawn_grey_with_a_note(encode: Any) -> None:
    trace = watched(encode_image=encode).run(example())
    row = trace.streams["patches"]
    mean = row.pixels.mean(0)
    wanted = (mean - mean.min()) / (mean.max() - mean.min())
    assert (row.seen - wanted[..., None]).abs().max() < 1e-5
    header, _ = unpack(image_map(trace, next(iter(trace.attention.values())), 0))
    assert header["isStretched"] is row.is_stretched is True


def test_one_channel_is_drawn_grey_as_it_is_read() -> None:
    def grey(image: Any) -> models.Patches:
        numbers = torch.tensor(np.asarray(cropped(image).convert("L")) / 255, dtype=torch.float32)
        return models.Patches(1 - numbers[None, None], 2, 3, ("[CLS]",))

    module = vision()
    module.patches = nn.Conv2d(1, 10, 4, stride=4)
    row = models.watch(module, encode_image=grey).run(example()).streams["patches"]
    wanted = torch.tensor(np.asarray(cropped(decoded(example())).convert("L"))) / 255
    assert (row.seen - wanted[..., None]).abs().max() < 1e-5
    assert not row.is_stretched


def test_without_class_names_its_answer_is_numbers() -> None:
    trace = watched(classes=()).run(example())
    assert trace.outputs["numbers"].shape == (3,)


def fails(image: Any) -> models.Patches:
    raise RuntimeError("no such colour")


BAD = {
    "encode_image fails": ({"encode_image": fails}, "RuntimeError: no such colour"),
    "no Patches": ({"encode_image": lambda image: 3}, "should return models.Patches"),
    "no batch axis": (
        {"encode_image": lambda image: models.Patches(torch.zeros(3, 8, 12), 2, 3)},
        "should return models.Patches",
    ),
    "another grid": (
        {"encode_image": lambda image: models.Patches(torch.zeros(1, 3, 8, 12), 3, 3, ("[CLS]",))},
        "7 × 7 cells, where the run has 10 × 10",
    ),
    "another number of classes": ({"classes": ("cat", "dog")}, r"logits \(1, 2\) of the classes"),
}  # fmt: skip


@pytest.mark.parametrize("how", BAD)
def test_errors_of_the_owner_are_shown_at_the_image(how: str) -> None:
    given, message = BAD[how]
    with pytest.raises(InputError, match=message) as error:
        watched(**given).run(example())
    assert error.value.field == "image"


@pytest.mark.parametrize(
    "given",
    [{"encode": list}, {"encode_image": None}, {"decode": str}, {"fields": ("picture",)}, {"example": "a"}],
)  # fmt: skip
def test_arguments_that_do_not_go_together_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="encode|reads text"):
        watched(**given)
    with pytest.raises(ValueError, match="they need encode_image"):
        models.watch(vision(), encode=list, classes=NAMES)
