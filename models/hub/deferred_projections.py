"""What is kept of the q, k and v of an attention: each by the cause that it comes from, and once where heads share it."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from models.hub.places import Frame
from models.hub.projections import Origin
from models.trace import AttentionSite
from models.trace.deferred import Product
from models.trace.recorder import LARGEST_KEPT


def with_projections(
    site: AttentionSite, projections: dict[str, tuple[Tensor, Tensor | None]]
) -> AttentionSite:
    """The same with these projections; nothing that is kept by its cause is worked out."""
    return replace(site, **{part: site.deferred(part) for part in "qkv"}, projections=projections)


def deferred(origin: Origin | None, t: Tensor) -> Tensor | Product:
    """A large one by its cause, if the pass ran in float32: rounded numbers are kept as they were."""
    if origin is None or t.numel() <= LARGEST_KEPT or t.dtype != torch.float32:
        return t.detach()
    return Product(origin.x, origin.weight, origin.bias, t.shape[1])


def source(origin: Origin | None, t: Tensor, frame: Frame) -> Tensor:
    """What q (or v) was made of; where that is not known, what came into the module, and last the heads themselves."""
    if origin is not None:
        return origin.x
    batch, n = t.shape[0], t.shape[2]
    model_input = next(
        (
            x
            for x in frame.inputs
            if x.dim() == 3 and x.shape[:2] == (batch, n) and x.is_floating_point()
        ),
        None,
    )
    return (t.transpose(1, 2).flatten(2) if model_input is None else model_input).detach()


def one_each(t: Tensor, groups: int, n_heads: int) -> Tensor:
    """Keys or values without the copies that were made of them for each head of a group."""
    if groups == 1 or t.shape[1] != n_heads or n_heads % groups:
        return t
    one = t[:, ::groups]
    return one if torch.equal(one.repeat_interleave(groups, dim=1), t) else t
