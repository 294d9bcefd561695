"""The choice between watching a few functions of a model and watching every operation."""

from collections.abc import Sequence

import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from models.hub.model import HubModel
from models.trace import AttentionSite, Recording, record


@torch.no_grad()
def choose_route(model: HubModel, inputs: Sequence[Shaped[Tensor, "..."]]) -> None:
    """Watch only a few functions of the model, if that records the same for these inputs."""
    if model.config.gives_weights:
        return
    recordings = []
    for model.by_functions in (False, True):
        with record() as recording:
            model(*inputs)
        recordings.append(recording)
    model.by_functions = _same(*recordings)
    if model.by_functions:
        embeddings = (
            path for path, part in model.module.named_modules() if isinstance(part, nn.Embedding)
        )
        model.marks.keep({*recordings[0].attention, *model.taps.paths, *embeddings})


def _same(one: Recording, other: Recording) -> bool:
    """Return True if two recordings of the same pass hold the same, bit for bit."""
    names = [list(r.attention) + list(r.activations) for r in (one, other)]
    if names[0] != names[1] or one.unrecorded != other.unrecorded:
        return False
    sites = [(site, other.attention[name]) for name, site in one.attention.items()]
    values = [(ours, other.activations[name]) for name, ours in one.activations.items()]
    return all(_same_site(*pair) for pair in sites) and all(
        (a.axes, a.formula) == (b.axes, b.formula) and torch.equal(a.value, b.value)
        for a, b in values
    )


def _same_site(one: AttentionSite, other: AttentionSite) -> bool:
    if (one.kind, one.number, len(one.terms)) != (other.kind, other.number, len(other.terms)):
        return False
    if one.projections.keys() != other.projections.keys():
        return False
    if [layer.name for layer in one.mask.layers] != [layer.name for layer in other.mask.layers]:
        return False
    tensors = [
        [site.x, site.memory, site.q, site.k, site.v, site.out, site.weights(), site.allowed()]
        + [t for pair in site.projections.values() for t in pair if t is not None]
        for site in (one, other)
    ]
    return len(tensors[0]) == len(tensors[1]) and all(map(torch.equal, *tensors))
