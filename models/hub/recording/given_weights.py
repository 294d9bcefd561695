"""Record attention whose library returns finished weights and nothing else.

The sites have the path of the module that made the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from jaxtyping import Float, Shaped
from torch import Tensor

from models.analysis.checks import rounding_in
from models.hub.recording.masks import MODEL_MASK, layers
from models.layers.masks import Mask, SiteKind
from models.layers.similarity import AttentionSimilarity
from models.trace import AttentionSite, Recording
from models.trace.recorder import free_name

if TYPE_CHECKING:
    from models.hub.recording.forward_pass import ForwardPass


def record_given_weights(
    forward_pass: ForwardPass, by_kind: Mapping[SiteKind, Sequence[Shaped[Tensor, ...]]]
) -> None:
    """Record the weights of a finished pass, layer by layer, if there is a recording."""
    if forward_pass.recording is None:
        return
    for number, layer in enumerate(zip_longest(*by_kind.values())):
        for kind, weights in zip(by_kind, layer, strict=True):
            if weights is not None:
                at = forward_pass.recording, kind, number
                _record_one(forward_pass, *at, weights.detach())


def attention_weights(output: Any, name: str = "attentions") -> list[Tensor]:
    """Return the tensors that a model returns under this name.

    They are (batch, head, query, key), or whatever its library calls weights.
    """
    returned = getattr(output, name, None) or ()
    return [weights for weights in returned if isinstance(weights, Tensor)]


def _record_one(
    forward_pass: ForwardPass,
    recording: Recording,
    kind: SiteKind,
    number: int,
    weights: Tensor,
) -> None:
    maker = forward_pass.maker(weights)
    if forward_pass.unshown.is_recorded(weights):
        return
    reason = forward_pass.unshown.account_for(weights, maker)
    path = maker or f"{kind.name} layer {number}"
    name = free_name(path, recording.attention.keys() | recording.unrecorded.keys())
    misfits = forward_pass.context.misfits
    if misfit := _misfit(forward_pass, kind, weights) or misfits.get(name):
        recording.unrecorded[name] = misfit
    else:
        number = forward_pass.context.layers.get(path, number)
        site = as_site(name, kind, number, weights, forward_pass)
        recording.attention[name] = replace(site, why_given=reason) if reason else site


def _misfit(forward_pass: ForwardPass, kind: SiteKind, weights: Tensor) -> str:
    """Return why these are not weights of tokens to tokens; empty if they are.

    They may be of windows, blocks or pooled tokens, or scores. A row may sum to less than 1 if a
    part of it goes to a sink.
    """
    n_query, n_key = tokens = forward_pass.tokens(kind, weights.shape[-1])
    if weights.dim() != 4 or tuple(weights.shape[-2:]) != tokens:
        shape = " × ".join(map(str, weights.shape[2:] if weights.dim() == 4 else weights.shape))
        return f"its library returns weights of {shape} for {n_query} × {n_key} tokens"
    against = unlike_weights(weights)
    return f"its library returns {against}" if against else ""


def unlike_weights(weights: Float[Tensor, "batch head query key"]) -> str:
    """Return why these numbers are not weights; empty if they are."""
    least, most = float(weights.min()), float(weights.float().sum(-1).max())
    if least >= 0 and most <= 1 + rounding_in(weights.dtype):
        return ""
    return (
        f"numbers that are not weights: the smallest is {least:.3g}, and a row sums to {most:.3g}"
    )


def as_site(
    name: str,
    kind: SiteKind,
    number: int,
    weights: Float[Tensor, "batch head query key"],
    forward_pass: ForwardPass,
) -> AttentionSite:
    """Return a site of weights alone."""
    batch, n_heads, n_query, n_key = weights.shape
    padding = forward_pass.context.padding.get(kind.key_stream)
    mask_layers = [
        layer for layer in layers(weights > 0, padding, n_query) if layer.name != MODEL_MASK
    ]  # a weight may be 0 by rounding
    of_queries, of_keys = (weights.new_empty(batch, n_heads, n, 0) for n in (n_query, n_key))
    n_new = n_key - forward_pass.context.start if kind.query_stream == kind.key_stream else n_key
    return AttentionSite(
        name,
        kind,
        weights.new_empty(batch, n_query, 0),
        weights.new_empty(batch, n_new, 0),
        of_queries,
        of_keys,
        of_keys,
        of_queries,
        Mask(mask_layers),
        AttentionSimilarity(),
        {},
        number=number,
        dtype=weights.dtype,
        given_weights=weights,
    )
