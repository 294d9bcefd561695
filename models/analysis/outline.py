"""Outline of a model without weights: its size, and its masks on a short row."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from models import weights
from models.architectures import Config, Model
from models.architectures.base import ORDER_FIELD
from models.layers.masks import SiteKind

OUTLINE_LENGTHS = 6, 5  # tokens on the first stream, and on the second
OUTLINE_ORDER = (2, 1, 3, 0)  # for order-based models: 3 → 2 → 4 → 1 (Yang et al. 2019, fig. 1)


@dataclass(frozen=True)
class Outline:
    """Size of a model, and the mask of each kind of attention on a row without padding."""

    n_parameters: int
    masks: dict[SiteKind, Bool[Tensor, "query key"]]


def outline(config: Config) -> Outline:
    """Return the outline of a configuration's model without creating its weights.

    Raises:
        ValueError: The model is too large to open.
    """
    model = weights.blank(config)
    return Outline(sum(parameter.numel() for parameter in model.parameters()), example_masks(model))


def example_masks(model: Model) -> dict[SiteKind, Bool[Tensor, "query key"]]:
    """Return each kind's mask on a short row of every stream, in OUTLINE_ORDER if order-based."""
    token = int(model.config.pad_id == 0)
    ordered = any(field.kind == ORDER_FIELD for field in model.fields)
    lengths = [len(OUTLINE_ORDER)] if ordered else OUTLINE_LENGTHS[: len(model.streams)]
    rows = [torch.full((1, n), token) for n in lengths]
    masks = model.masks(*rows, *[torch.tensor([OUTLINE_ORDER]).argsort()] * ordered)
    n = dict(zip(model.streams, lengths, strict=True))
    return {
        kind: masks[kind.name].expanded(0, 0, n[kind.query_stream], n[kind.key_stream])
        for kind in model.kinds
        if kind.name in masks
    }
