"""Record `flex_attention`, and run compiled functions uncompiled while a pass is watched.

Calls inside a compiled function cannot be seen, and `flex_attention` compiles itself. Uncompiled,
it calls an operator with the queries, keys and score functions of the call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from models.hub.recording.context import AttentionCall
from models.hub.recording.masks import LOWEST

if TYPE_CHECKING:
    from models.hub.recording.forward_pass import ForwardPass

OPERATOR = torch.ops.higher_order.flex_attention
SCORE_NOT_ADDED = "its score_mod does more to q·k than to add a term or to block cells"
NOT_EXPOSED = "this version of torch does not show how flex_attention computes its scores"
_ROUNDINGS = 64  # tolerance, in roundings of the largest score


def record_flex(
    forward_pass: ForwardPass,
    func: Callable[..., Any],
    query: Float[Tensor, "batch head query d_head"],
    key: Float[Tensor, "#batch key_head key d_head"],
    value: Float[Tensor, "#batch key_head key d_v"],
    score_mod: Callable[..., Tensor],
    block_mask: tuple[Any, ...],
    scale: float,
    *how: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Record the operator's attention and return its own result.

    That is the output and, for its backward pass, sums of each row.
    """
    mods = score_mod, block_mask, scale, *how
    if not forward_pass.is_followed:
        return func(query, key, value, *mods)
    explained = _explain(query, _per_query_head(key, query), mods)
    if isinstance(explained, str):
        forward_pass.skip(explained)
        return func(query, key, value, *mods)
    raw, attn_mask = explained
    results: list[tuple[Tensor, Tensor, Tensor]] = []

    def run(mask: Tensor | None, causal: bool) -> Tensor:
        if mask is attn_mask:
            results.append(func(query, key, value, *mods))
        else:
            grouped = query.shape[1] != key.shape[1]
            out = F.scaled_dot_product_attention(
                query, key, value, attn_mask=mask, scale=scale, enable_gqa=grouped
            )
            results.append((out, *_sums(raw, mask)))
        return results[-1][0]

    out = forward_pass.attend(AttentionCall(query, key, value, attn_mask, False, scale), run)
    return out, *results[0][1:]


def _per_query_head(t: Tensor, query: Tensor) -> Tensor:
    return t.repeat_interleave(query.shape[1] // t.shape[1], dim=1)


def _explain(
    query: Tensor, key: Tensor, mods: tuple[Any, ...]
) -> tuple[Tensor, Tensor | None] | str:
    """Return the scaled q·k and its added terms as a mask, or why they do not explain the call."""
    try:  # the operator's scores where there is no kernel; torch may rename it
        from torch._higher_order_ops.flex_attention import _math_attention_inner as scores_of
    except ImportError:
        return NOT_EXPOSED
    raw, masked = scores_of(query, key, key, *mods)
    _, at_zero = scores_of(torch.zeros_like(query), key, key, *mods)
    is_open = at_zero > LOWEST
    softmaxed = masked[is_open]
    limit = _ROUNDINGS * torch.finfo(masked.dtype).eps * max(1.0, float(raw.abs().max()))
    if not torch.equal(masked > LOWEST, is_open) or bool(
        ((raw + at_zero)[is_open] - softmaxed).abs().gt(limit).any()
    ):
        return SCORE_NOT_ADDED
    if not bool(at_zero[is_open].any()):
        return raw, None if bool(is_open.all()) else is_open
    return raw, at_zero.to(query.dtype).masked_fill(~is_open, -torch.inf)


def _sums(raw: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the log-sum-exp and the maximum of masked scores, in the operator's units."""
    if mask is not None:
        raw = raw.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else raw + mask
    return raw.logsumexp(-1) / math.log(2), raw.amax(-1) / math.log(2)
