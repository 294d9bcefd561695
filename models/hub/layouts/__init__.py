"""Layouts of layers in third-party models, whatever the model is called.

Every layout is tried on every model; a short run decides whether it is the model's (confirm.py). A
new layout is a line of one of the tables.
"""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from models.hub.layer_map import LayerMap
from models.hub.layer_paths import AttnPaths, LayerGroup, Paths
from models.hub.layouts.decoders import DECODERS, OPEN_DECODERS
from models.hub.layouts.encoders import ENCODERS
from models.hub.layouts.mixers import MIXERS
from models.hub.layouts.output_norms import OUTPUT_NORMS
from models.hub.layouts.two_stacks import TWO_STACKS

LAYOUTS = (*DECODERS, *ENCODERS, *TWO_STACKS, *OPEN_DECODERS, *OUTPUT_NORMS, *MIXERS)


def layer_maps(module: nn.Module) -> list[LayerMap]:
    """Return the layouts whose modules this model has, below any path.

    First come those whose attention ends in a product with the joined heads, then the same layouts
    with the output of the attention's module instead.
    """
    paths = [path for path, _ in module.named_modules()]
    maps = []
    for layout in (*LAYOUTS, *(tuple(map(_by_module, layout)) for layout in LAYOUTS)):
        first = layout[0].layers.format(0)
        for path in paths:
            if f".{path}".endswith(f".{first}"):
                above = path.removesuffix(first)
                maps.append(LayerMap(module, [_below(above, stack) for stack in layout]))
    return [layer_map for layer_map in maps if layer_map.parts]


def _by_module(stack: LayerGroup) -> LayerGroup:
    """Return a stack whose attentions end in the output of their modules."""

    def changed(parts: tuple[Paths, ...]) -> tuple[Paths, ...]:
        return tuple(
            replace(part, last=part.path) if isinstance(part, AttnPaths) else part for part in parts
        )

    alternatives = tuple(map(changed, stack.alternatives))
    return replace(stack, parts=changed(stack.parts), alternatives=alternatives)


def rotary_paths(module: nn.Module) -> list[str]:
    """Return the paths of modules that may compute cos and sin of rotary positions."""
    return [path for path, _ in module.named_modules() if path.rpartition(".")[2] == "rotary_emb"]


def _below(above: str, stack: LayerGroup) -> LayerGroup:
    paths = {
        name: f"{above}{path}"
        for name in ("layers", "last_norm", "last_product")
        if (path := getattr(stack, name))
    }
    return replace(stack, **paths)
