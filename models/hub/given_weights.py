"""Attention of models whose library returns finished weights and nothing else: sites of given weights, under the path of the
module that made them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType
from typing import Any

from torch import Tensor

from models.analysis.checks import rounding_in
from models.hub.masks import OWN, layers
from models.hub.recorder import Pass
from models.layers.masks import Mask, SiteKind
from models.layers.similarity import Similarity
from models.trace import AttentionSite
from models.trace.recorder import free_name


def record(
    forward_pass: Pass,
    by_kind: Mapping[SiteKind, Sequence[Tensor]],
    misfits: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Put the weights of a finished pass, layer by layer, into its recording; do nothing without one.

    `misfits` maps the names of attentions that are not one of tokens to tokens, even where their shape is, to the reason."""
    if forward_pass.recording is None:
        return
    for number, layer in enumerate(zip_longest(*by_kind.values())):
        for kind, weights in zip(by_kind, layer, strict=True):
            if weights is not None:
                _record_one(forward_pass, kind, number, weights.detach(), misfits)


def attention_weights(output: Any, name: str = "attentions") -> list[Tensor]:
    """Return the tensors that a model returns under this name: (batch, head, query, key), or whatever its library calls weights."""
    found = getattr(output, name, None) or ()
    return [weights for weights in found if isinstance(weights, Tensor)]


def _record_one(
    forward_pass: Pass, kind: SiteKind, number: int, weights: Tensor, misfits: Mapping[str, str]
) -> None:
    path = forward_pass.maker(weights) or f"{kind.name} layer {number}"
    recording = forward_pass.recording
    name = free_name(path, recording.attention.keys() | recording.unrecorded.keys())
    if misfit := misfits.get(name) or _misfit(forward_pass, kind, weights):
        recording.unrecorded[name] = misfit
    else:
        recording.attention[name] = _site(name, kind, number, weights, forward_pass)


def _misfit(forward_pass: Pass, kind: SiteKind, weights: Tensor) -> str:
    """Return why these are not the weights of tokens to tokens: they are of windows, blocks or pooled tokens, or scores.

    Empty if they are. A row may sum to less than 1, where a part of it goes to a sink."""
    n_query, n_key = tokens = forward_pass.tokens(kind, weights.shape[-1])
    if weights.dim() != 4 or tuple(weights.shape[-2:]) != tokens:
        shape = " × ".join(map(str, weights.shape[2:] if weights.dim() == 4 else weights.shape))
        return f"its library returns weights of {shape} for {n_query} × {n_key} tokens"
    least, most = float(weights.min()), float(weights.float().sum(-1).max())
    if least >= 0 and most <= 1 + rounding_in(weights.dtype):
        return ""
    return f"its library returns numbers that are not weights: the least is {least:.3g}, and a row sums to {most:.3g}"


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
