"""What a model is, without its numbers: how large, and who may see whom on a short row, by the masks that it makes itself."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from models import weights
from models.architectures import Config, Model
from models.architectures.base import ORDER
from models.layers.masks import SiteKind

LENGTHS = 6, 5  # tokens on the first stream, and on the second
IN_ORDER = (2, 1, 3, 0)  # of a model that is given one: 3 → 2 → 4 → 1 (Yang et al. 2019, fig. 1)


@dataclass(frozen=True)
class Outline:
    """`masks` hold what each kind of attention allows on a row without padding; none in a model without attention."""

    n_parameters: int
    masks: dict[SiteKind, Bool[Tensor, "query key"]]


def outline(config: Config) -> Outline:
    """Of the model that this configuration describes, of which no number is made. Raises ValueError for one that is too large."""
    model = weights.blank(config)
    return Outline(sum(parameter.numel() for parameter in model.parameters()), example_masks(model))


def example_masks(model: Model) -> dict[SiteKind, Bool[Tensor, "query key"]]:
    """Each kind's mask on a short row of every stream; in the order IN_ORDER, where the model is given one."""
    token = int(model.config.pad_id == 0)
    ordered = any(field.kind == ORDER for field in model.fields)
    lengths = [len(IN_ORDER)] if ordered else LENGTHS[: len(model.streams)]
    rows = [torch.full((1, n), token) for n in lengths]
    made = model.masks(*rows, *[torch.tensor([IN_ORDER]).argsort()] * ordered)
    n = dict(zip(model.streams, lengths, strict=True))
    return {
        kind: made[kind.name].expanded(0, 0, n[kind.query_stream], n[kind.key_stream])
        for kind in model.kinds
        if kind.name in made
    }
