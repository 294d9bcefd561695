"""Attention of models whose library returns finished weights and nothing else: sites of given weights, under the path of the
module that made them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from torch import Tensor

from models.hub.masks import OWN, layers
from models.hub.recorder import Pass
from models.layers.masks import Mask, SiteKind
from models.layers.similarity import Similarity
from models.trace import AttentionSite


def record(forward_pass: Pass, by_kind: Mapping[SiteKind, Sequence[Tensor]]) -> None:
    """Put the weights of a finished pass, layer by layer, into its recording; do nothing without one."""
    if forward_pass.recording is None:
        return
    for number, layer in enumerate(zip_longest(*by_kind.values())):
        for kind, weights in zip(by_kind, layer, strict=True):
            if weights is not None:
                _record_one(forward_pass, kind, number, weights.detach())


def attention_weights(output: Any, name: str = "attentions") -> list[Tensor]:
    """The attention weights that a model returns under this name, (batch, head, query, key) each."""
    found = getattr(output, name, None) or ()
    return [weights for weights in found if isinstance(weights, Tensor) and weights.dim() == 4]


def _record_one(forward_pass: Pass, kind: SiteKind, number: int, weights: Tensor) -> None:
    path = forward_pass.maker(weights) or f"{kind.name} layer {number}"
    name = path if path not in forward_pass.recording.attention else f"{path} ({number + 1})"
    forward_pass.recording.attention[name] = _site(name, kind, number, weights, forward_pass)


def _site(
    name: str, kind: SiteKind, number: int, weights: Tensor, forward_pass: Pass
) -> AttentionSite:
    batch, n_heads, n_query, n_key = weights.shape
    padding = forward_pass.places.padding.get(kind.key_stream)
    known = [
        layer for layer in layers(weights > 0, padding, n_query) if layer.name != OWN
    ]  # a weight may be 0 by rounding
    nothing = [weights.new_empty(batch, n_heads, n, 0) for n in (n_query, n_key, n_key, n_query)]
    n_new = n_key - forward_pass.places.start if kind.query_stream == kind.key_stream else n_key
    vectors = [weights.new_empty(batch, n, 0) for n in (n_query, n_new)]
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
