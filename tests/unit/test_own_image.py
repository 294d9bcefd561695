"""A vision module of the user's own: what `models.watch` takes of its owner, and what it refuses."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import models
from models import InputError
from models.images import EXAMPLES, PatchRow, decoded, example

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


def test_its_tokens_are_the_patches_and_the_image_is_the_one_that_was_given() -> None:
    row = watched().run(example()).streams["patches"]
    assert isinstance(row, PatchRow)
    assert row.tokens == ("[CLS]", "r1c1", "r1c2", "r1c3", "r2c1", "r2c2", "r2c3")
    assert row.grid.patch(4) == (1, 0)
    small = torch.tensor(list(decoded(example()).resize((12, 8)).tobytes())).reshape(8, 12, 3)
    assert (row.seen - small / 255).abs().max() < 1e-6


def test_without_names_of_classes_its_answer_is_numbers() -> None:
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
def test_what_the_owner_gets_wrong_is_said_beside_the_image(how: str) -> None:
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
