# attnscope --module assets/examples/vision_transformer.py:make_scope
"""A vision transformer written by hand: patches of an image, self-attention, a class.

It is untrained: its weights are random, drawn with a fixed seed.
"""

import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F

import models

SIDE, PATCH, WIDTH, HEADS, LAYERS = 96, 12, 40, 4, 2
GRID = SIDE // PATCH
CLASSES = ("circle", "square", "neither")


class Block(nn.Module):
    """Self-attention between all patches, then a feed-forward, each added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm, self.ff_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.ff = nn.Sequential(nn.Linear(WIDTH, 3 * WIDTH), nn.GELU(), nn.Linear(3 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm(x)
        q, k, v = (
            part(normed).unflatten(-1, (HEADS, -1)).transpose(1, 2)  # (batch, head, patch, d_head)
            for part in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.ff(self.ff_norm(x))


class UntrainedVisionTransformer(nn.Module):
    """Pixels in, a logit for each class out, read from [CLS] (Dosovitskiy et al. 2021)."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, stride=PATCH)
        self.cls = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.zeros(1, 1 + GRID * GRID, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(CLASSES))

    def forward(self, pixels: Tensor) -> Tensor:
        x = self.patches(pixels).flatten(2).transpose(1, 2)  # (batch, patch, d_model)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))


def encode_image(image: Image.Image) -> models.Patches:
    """Return the pixels from −1 to 1, and how they are cut into patches."""
    small = image.resize((SIDE, SIDE))
    pixels = torch.frombuffer(bytearray(small.tobytes()), dtype=torch.uint8)
    pixels = pixels.reshape(1, SIDE, SIDE, 3).permute(0, 3, 1, 2) / 127.5 - 1
    return models.Patches(pixels, rows=GRID, columns=GRID, before=("[CLS]",))


def make_scope() -> models.Scope:
    """Return the vision transformer with random weights."""
    torch.manual_seed(5)
    module = UntrainedVisionTransformer()
    for p in module.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.25)
    return models.watch(
        module.eval(),
        encode_image=encode_image,
        classes=CLASSES,
        name="vision transformer, untrained (random weights)",
    )
