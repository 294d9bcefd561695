"""Families whose residual stream and feed-forward are known, by the paths of their modules; see taps.py. A new family is a line of
FAMILIES, and nothing else in models/ knows one."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from models.hub.config import HubConfig
from models.hub.taps import Tap, Taps
from models.trace.recorder import LARGEST_KEPT

LARGEST = 4 * LARGEST_KEPT      # numbers of what stands within a layer; the streams between layers are always kept


@dataclass(frozen=True)
class Layers:
    """Where the layers of a family stand, and what of one layer. `{}` in `stack` is the layer's number; the rest is within it.

    Under pre-LN the stream goes into the first norm and into the second; under post-LN it comes out of them."""

    stack: str              # the path of a layer
    attention: str          # of the module whose path its attention is recorded under
    middle: str             # of the module that the stream goes into (pre) or comes out of (post) behind attention
    feed_forward: str = ""  # of the module that makes what the feed-forward adds; "" where none makes it alone
    norm: str = "pre"


# model_type → its layers
_GPT2 = Layers("transformer.h.{}", "attn", "ln_2", "mlp")
_LLAMA = Layers("model.layers.{}", "self_attn", "post_attention_layernorm", "mlp")
FAMILIES: dict[str, Layers] = {
    "gpt2": _GPT2,
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3"), _LLAMA),
    **{name: Layers(name + ".encoder.layer.{}", "attention.self", "attention.output", norm="post") for name in (
        "bert", "roberta", "electra",
    )},
    "distilbert": Layers("distilbert.transformer.layer.{}", "attention", "sa_layer_norm", "ffn", "post"),
}  # fmt: skip


def taps_of(kind: str, module: nn.Module, sizes: HubConfig) -> Taps:
    """The taps of a kind of model; none of one that is not known, or whose modules stand elsewhere than those of its family do."""
    layers, paths = FAMILIES.get(kind), {path for path, _ in module.named_modules()}
    if layers is None:
        return Taps()
    found: dict[str, tuple[Tap, ...]] = {}
    for number in range(sizes.n_layers):
        layer = next((p for p in (layers.stack.format(number), _without_head(layers.stack.format(number))) if p in paths), "")
        inside = [f"{layer}.{part}" for part in (layers.attention, layers.middle, layers.feed_forward) if part]
        if not layer or not set(inside) <= paths:
            return Taps()
        found |= _of_layer(layer, layers)
    return Taps(found)


def _without_head(path: str) -> str:
    """The same in a model that has no other parts, whose modules have no first name."""
    return path.partition(".")[2]


def _of_layer(layer: str, layers: Layers) -> dict[str, tuple[Tap, ...]]:
    """Names as those of our own models: beside the attention that the stream is read by."""
    beside = f"{layer}.{layers.attention}".rpartition(".")[0]
    pre = layers.norm == "pre"
    ends = (Tap(f"{beside}.resid_pre", True, "residual stream before the layer"),
            Tap(f"{beside}.resid_post", False, "residual stream behind the layer"))
    middle = Tap(f"{beside}.resid_mid", pre, "residual stream between attention and feed-forward", largest=LARGEST)
    added = Tap(f"{beside}.ff_out", False, "what the feed-forward adds", largest=LARGEST)
    made = {f"{layer}.{layers.feed_forward}": (added,)}
    return {layer: ends, f"{layer}.{layers.middle}": (middle,), **(made if layers.feed_forward else {})}
