"""Attention of models whose library returns finished weights and nothing else: sites of given weights, under the path of the
module that made them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from models.hub.masks import OWN, layers
from models.hub.recorder import Pass
from models.layers.masks import Mask, SiteKind
from models.layers.similarity import Similarity
from models.trace import AttentionSite


def record(forward_pass: Pass, output: Any, kinds: Sequence[SiteKind]) -> None:
    """Put the weights of a finished pass into its recording; nothing without one. The first kind is that of all of them."""
    if forward_pass.recording is None:
        return
    for number, weights in enumerate(attention_weights(output)):
        path = forward_pass.maker(weights) or f"layer {number}"
        name = path if path not in forward_pass.recording.attention else f"{path} ({number + 1})"
        forward_pass.recording.attention[name] = _site(
            name, kinds[0], number, weights.detach(), forward_pass
        )


def attention_weights(output: Any) -> list[Tensor]:
    """The attention weights among a model's answers, (batch, head, query, key) each."""
    found = getattr(output, "attentions", None) or ()
    return [weights for weights in found if isinstance(weights, Tensor) and weights.dim() == 4]


def _site(
    name: str, kind: SiteKind, number: int, weights: Tensor, forward_pass: Pass
) -> AttentionSite:
    batch, n_heads, n_query, n_key = weights.shape
    padding = forward_pass.places.padding.get(kind.key_stream)
    known = [
        layer for layer in layers(weights > 0, padding, n_query) if layer.name != OWN
    ]  # a weight may be 0 by rounding
    nothing = [weights.new_empty(batch, n_heads, n, 0) for n in (n_query, n_key, n_key, n_query)]
    vectors = [weights.new_empty(batch, n, 0) for n in (n_query, n_key)]
    q, k, v, out = nothing
    return AttentionSite(
        name,
        kind,
        *vectors,
        q,
        k,
        v,
        out,
        Mask(known),
        Similarity(),
        {},
        number=number,
        dtype=weights.dtype,
        given_weights=weights,
    )
